"""The system message: who the face is, and in which language it answers."""

from __future__ import annotations

# Small models follow an instruction best in the language that they are to answer in.
_ANSWER_IN = {
    "en": "Answer in English.",
    "zh": "请用简体中文回答。",
    "de": "Antworte auf Deutsch.",
    "es": "Responde en español.",
    "fr": "Réponds en français.",
    "ja": "日本語で答えてください。",
    "ko": "한국어로 대답하세요.",
}


def system_message(persona: str, language: str) -> str:
    """`persona`, and the language of the answers where it is one of those known here.

    Empty for an empty persona: the language model then speaks as its own, which it has read
    ahead, so that the first answer comes sooner.
    """
    if not persona.strip():
        return ""
    sentence = _ANSWER_IN.get(language.partition("-")[0].lower(), "")
    return " ".join(part for part in (persona.strip(), sentence) if part)
