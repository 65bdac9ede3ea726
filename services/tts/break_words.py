"""Words that tell the phrase cutter where a sentence may be cut and where a point ends nothing."""

from __future__ import annotations

TITLES = frozenset(
    "dr. mr. mrs. ms. prof. st. gen. col. lt. sgt. capt. rev. hon. pres. gov. sen. rep. vs. cf. "
    "e.g. i.e. eg. ie. viz. approx. ca. jan. feb. "
    "mar. apr. jun. jul. aug. sep. sept. oct. nov. dec. mon. tue. wed. thu. fri. sat. sun.".split()
)
"""Abbreviations that something always follows: their point never ends a sentence."""

MAYBE_ABBREVIATIONS = frozenset(
    "no. nos. fig. figs. vol. pp. p. ch. sec. eq. al. etc. inc. ltd. co. corp. jr. sr. ph.d. est. "
    "dept. ave. blvd. rd. a.m. p.m. u.s. u.k.".split()
)
"""Their point ends a sentence where a capital letter follows."""

BREAK_BEFORE = frozenset(
    "and but or because so if when while where which who whose that than though although unless "
    "until since after before with without as for from through during about between into like "
    "however therefore instead to at in on by is are was were will can".split()
)
"""A new part of the sentence begins here: the voice may take a breath in front."""

KEEP_WITH_NEXT = frozenset(
    "a an the this these those my your his her its our their some any no each every all both "
    "of to in on at by for from with into as and or but if that than is are was were be been am "
    "will would can could should may might must do does did has have had not very so too more most "
    "over under about around near between within during through across against among toward "
    "because so when while where which who whose what how why although though unless until since "
    "such much many few several another other one also just only even quite rather almost nearly "
    "like per via than whether i'll you'll he'll she'll we'll they'll don't doesn't can't won't "
    "mr mrs ms dr i you he she it we they there i'm it's that's you're we're they're i've".split()
)
"""Never the last word of a cut phrase: it leans on what follows."""

BREAK_BEFORE_HAN = frozenset(
    "但是 因为 所以 如果 而且 或者 并且 然后 虽然 不过 以及 可以 我们 你们 他们 她们 它们 "
    "这个 那个 就是 还是 可能 需要 没有 例如 比如 包括 因此 于是 同时 其中 无论 即使 只要 "
    "只有 除了 通过".split()
)
"""The same for Mandarin, by their first two characters."""
