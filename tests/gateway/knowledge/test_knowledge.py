"""Texts of the operator's: cut into passages, found by questions, told to model and clients."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import httpx
import pytest

from gateway.api.events import SourcesEvent, TextSource
from gateway.knowledge.folder import Knowledge, read_folder
from gateway.knowledge.passages import LONGEST, Passage, passages_of, size_of
from gateway.knowledge.search import MOST, Search, terms
from gateway.stages import lease
from gateway.talk.actions import Message
from gateway.talk.conversation import Conversation
from services.llm.passages import MOST_CHARS
from tests.gateway.conftest import RunningGateway, eventually, until
from tests.gateway.doubles import Doubles
from tests.gateway.talk.test_conversation import of
from tests.gateway.tools.test_tools import TOOLS, next_call
from tests.gateway.visiting import collect
from visavis.client import GatewayClient
from visavis.serving.errors import InvalidInputError

MARKDOWN = """---
title: x
---
# Opening *hours*

We are open [daily](hours.html).

| day | until |
|---|---|
| Monday | **six** |

## Parking ##
```
# no heading
```
"""


def test_headings_and_paragraphs_make_passages() -> None:
    assert passages_of("a.md", MARKDOWN) == [
        Passage("a.md", "Opening hours", "We are open daily. day until Monday six"),
        Passage("a.md", "Parking", "# no heading"),
    ]
    page = "<h1>A<br>B</h1><p>One &amp; two</p><script>x()</script><ul><li>three</ul>"
    assert passages_of("b.html", page) == [Passage("b.html", "A B", "One & two three")]
    page = "<head><title>x</title><body><h1>A<br/>B <div>C</div></h1><p>One"
    assert passages_of("b.html", page) == [Passage("b.html", "A B C", "One")]
    page = "<p>One<![alt](x.png)> two<![if !x]> <![CDATA[y]]>three<p>four <![ five"
    assert "One two three four" in passages_of("b.html", page)[0].text
    address = "# C#\nWrite to __info_desk@a.org__, `a.org/b_c`; _posters_ have 50*70 **cm**."
    assert passages_of("d.md", address) == [
        Passage("d.md", "C#", "Write to info_desk@a.org, a.org/b_c; posters have 50*70 cm.")
    ]
    lined = "Opening *hours*\n=====\nDaily.\n\nPrices\n---\nTen euros.\n\n- a\n---\nb"
    assert passages_of("e.md", lined) == [
        Passage("e.md", "Opening hours", "Daily."),
        Passage("e.md", "Prices", "Ten euros. - a --- b"),
    ]
    assert [p.text for p in passages_of("c.txt", "one\ntwo\n\n\nthree\n")] == ["one two three"]


@pytest.mark.parametrize(
    "sentence",
    [
        "All of this is said. ",
        "这是一句话。",
        "word " * 7,
        "https://museum.example/exhibits/a-lamp-of-the-lighthouse/index.html\n",
        "พิพิธภัณฑ์เปิดให้เข้าชมทุกวันตั้งแต่เวลาเก้าโมงเช้าถึงห้าโมงเย็นโดยไม่เสียค่าเข้าชม",
    ],
)
def test_no_passage_is_too_long_and_nothing_is_lost(sentence: str) -> None:
    text = sentence * 100
    passages = passages_of("a.txt", text)
    assert len(passages) > 1
    assert all(size_of(p.text) <= LONGEST for p in passages)
    assert all(len(p.text) <= MOST_CHARS for p in passages), "no model would be told of it"
    assert "".join("".join(p.text.split()) for p in passages) == "".join(text.split())


@pytest.mark.parametrize("line", ["A blue lamp, ten euros\n", "蓝色的灯，十欧元，"])
def test_a_list_without_full_stops_is_read_in_one_go(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, measured = line * 1000, []

    def noting(part: str) -> float:
        measured.append(len(part))
        return size_of(part)

    monkeypatch.setattr("gateway.knowledge.passages.size_of", noting)
    assert len(passages_of("a.txt", text)) > 20
    assert sum(measured) < 10 * len(text)


def test_words_are_found_by_their_stems_and_chinese_by_neighbours() -> None:
    assert terms("Are the TICKETS for opening days?") == terms("ticket open day")
    assert terms("请问门票多少钱？") == ["门票", "钱"]
    assert terms("２０２６年") == ["2026", "年"] and terms("") == []
    assert terms("पार्किंग, முடிவு") == ["पार्किंग", "முடிவு"], "their vowels are signs within words"
    assert terms("مُتْحَف") == terms("متحف") == ["متحف"]
    assert terms("בית־סֵפֶר") == ["בית", "ספר"]


def found(search: Search, question: str, before: str = "") -> list[str]:
    return [passage.heading for passage in search.find(question, before)]


def test_nothing_is_found_where_nothing_fits() -> None:
    texts = {
        "Hours": "We are open on Mondays from nine to five.",
        "Sundays": "On Sundays the house is closed.",
        "Tickets": "A ticket for adults costs ten euros.",
        "Dogs": "Dogs stay outside.",
    }
    search = Search([Passage("a.md", heading, text) for heading, text in texts.items()])
    assert found(search, "What does a ticket cost?") == ["Tickets"]
    assert found(search, "What is the capital of France?") == []
    assert found(search, "Is my ticket for the opera in Paris tonight still good?") == []
    # A short question leans on the one before, and needs a word of its own.
    assert found(search, "And on Sundays?", "When are you open?")[0] == "Sundays"
    assert found(search, "Thanks!", "When are you open?") == []
    assert found(search, "?") == [] and found(Search(()), "ticket") == []
    many = Search([Passage("a.md", str(n), f"ticket number {n}") for n in range(9)])
    assert len(many.find("ticket number")) == MOST


def test_a_folder_is_read_and_what_is_not_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("Dogs stay outside.")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    (tmp_path / ".hidden.txt").write_text("secret")
    (tmp_path / "away.txt").symlink_to("/etc/hostname")
    reading = read_folder(tmp_path)
    assert reading.passages == [Passage("sub/b.txt", "", "Dogs stay outside.")]
    assert (
        reading.report(tmp_path).split(": ", 2)[1]
        == f"1 files, 1 passages from {tmp_path}; left out"
    )
    assert reading.left_out == [
        "a.pdf (only txt, md and html are read)",
        "away.txt (it lies elsewhere)",
        "latin.txt (not UTF-8)",
    ]
    with pytest.raises(InvalidInputError, match="is not a folder"):
        Knowledge(tmp_path / "none")


def test_a_name_that_is_not_utf8_can_be_told(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xf6ffnen.txt")).write_text("We open at nine.")
    (passage,) = read_folder(tmp_path).passages
    assert passage.source == "?ffnen.txt"


async def test_a_folder_that_changes_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Dogs stay outside.")
    knowledge = Knowledge(tmp_path)
    await knowledge.open()
    asked = (Message("user", "Where do cats stay?"), Message("tool", "x", (), "c1"))
    assert knowledge.find(asked)[0].text == "Dogs stay outside."
    assert not await knowledge.refresh()
    (tmp_path / "a.txt").write_text("Cats stay in the garden.")
    (tmp_path / "b.txt").write_text("Birds fly.")
    assert await knowledge.refresh()
    assert [p.text for p in knowledge.find(asked)] == ["Cats stay in the garden."]


async def test_a_file_that_goes_while_the_folder_is_read_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("Dogs stay outside.")
    knowledge = Knowledge(tmp_path)
    await knowledge.open()
    (tmp_path / "a.txt").write_text("Cats stay in the garden.")
    swap, is_file, asked = tmp_path / "4913.txt", Path.is_file, []
    swap.touch()

    def goes(path: Path) -> bool:
        there = is_file(path)
        asked.append(path)
        if asked.count(swap) == 2:  # once as it is looked at, once as it is read
            swap.unlink(missing_ok=True)
        return there

    monkeypatch.setattr(Path, "is_file", goes)
    assert await knowledge.refresh()
    (found,) = knowledge.find((Message("user", "Where do cats stay?"),))
    assert found.text == "Cats stay in the garden."


def test_sources_of_a_prepared_answer_are_told_with_it() -> None:
    talk = Conversation()
    talk.speech_started(1, 0)
    talk.paused(1, "When are you open", 0.9, 0)
    assert talk.turn is not None
    talk.turn.known = (Passage("a.md", "Hours", "x"), Passage("a.md", "Hours", "y"))
    assert talk.sources_known(talk.epoch) == []
    (told,) = of(talk.final(1, "When are you open?", 1), SourcesEvent)
    assert told.sources == [TextSource(file="a.md", heading="Hours")]


# ------------------------------------------------------------ through the API


SETTINGS = {"knowledge": Path(__file__).parents[2] / "knowledge" / "texts"}


@pytest.mark.asyncio(loop_scope="module")
async def test_passages_go_with_the_question_and_clients_see_where_they_stand(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 0.04
    async with client.session() as session:
        await session.ask("When do you open on Sundays?")
        events = await collect(session, "finished")
        await session.ask("How are you today?")
        later = await collect(session, "finished")
        read = await until(lambda: doubles.seen.of("llm", "read_ahead"))
    (told,) = [e for e in events if e["type"] == "answer.sources"]
    assert told == {
        "type": "answer.sources",
        "turn": 1,
        "sources": [{"file": "visit.md", "heading": "Opening hours"}],
    }
    assert not [e for e in later if e["type"] == "answer.sources"]
    first, second = (r.begin.request for r in doubles.seen.of("llm", "begin"))
    assert first.passages[0].source == "visit.md, Opening hours"
    assert first.passages[0].text.startswith("We are open from Tuesday")
    assert not second.passages and not read[0].read_ahead.request.passages


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("prepared", [False, True], ids=["asked", "prepared"])
async def test_sources_are_told_once_where_the_language_model_comes_late(
    prepared: bool,
    client: GatewayClient,
    gateway: RunningGateway,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To a question that has waited for it too long, and to one that is confirmed as it waits."""
    monkeypatch.setattr(lease, "RETURN_TIMEOUT_S", 30.0 if prepared else 0.1)
    async with client.session() as session:
        await doubles.stop("llm")
        path = f"/v1/sessions/{session.id}"
        await eventually(partial(_lacks_model, client, path))
        if prepared:
            await session.typing("When do you open on Sundays?")
        await session.ask("When do you open on Sundays?")
        events = await collect(session, "opened")
        if not prepared:
            inside = gateway.inside.sessions.get(session.id)
            await until(lambda: inside.turn is not None and inside.turn.lost)
        await doubles.start("llm")
        events += await collect(session, "finished", "failed")
    assert events[-1]["event"] == "finished"
    assert len([e for e in events if e["type"] == "answer.sources"]) == 1
    (begin,) = doubles.seen.of("llm", "begin")
    assert begin.begin.request.passages


async def _lacks_model(client: GatewayClient, path: str) -> bool:
    return (await client.call("GET", path)).json()["stages"]["llm"] is None


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_found_is_still_there_when_a_tool_has_been_called(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.calls = [("c1", "get_weather", "{}")]
    async with client.session(tools=TOOLS) as session:
        await session.ask("When do you open on Sundays?")
        await next_call(session)
        await session.tool_result("c1", "sunny")
        await collect(session, "finished")
    (begin,), (on,) = doubles.seen.of("llm", "begin"), doubles.seen.of("llm", "go_on")
    assert begin.begin.request.passages
    assert list(on.go_on.request.passages) == list(begin.begin.request.passages)


@pytest.mark.asyncio(loop_scope="module")
async def test_who_asks_in_a_live_room_does_not_hide_what_is_asked(
    client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}/room"
        assert (await http.post(path, json={})).is_success
        sent = {"author": {"name": "Ben Miller"}, "text": "When do you open on Sundays?"}
        assert (await http.post(f"{path}/comments", json=sent)).is_success
        await collect(session, "finished")
    (begin,) = doubles.seen.of("llm", "begin")
    assert begin.begin.request.passages[0].source == "visit.md, Opening hours"
