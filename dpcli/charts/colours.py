"""Colours that tell lines apart on light and dark paper, also for those who see few of them (after Okabe & Ito 2008), and legibly so."""

from __future__ import annotations

from dpcli.document.chart import Tone

LIGHT: dict[Tone | str, str] = {
    Tone.MAIN: "#005f9e",
    Tone.SECOND: "#b84700",
    Tone.THIRD: "#00705a",
    Tone.FOURTH: "#9c3d74",
    Tone.FIFTH: "#6a5a00",
    Tone.MUTED: "#6b7178",
    Tone.LIMIT: "#8a1c1c",
    "text": "#1b1f24",
    "quiet": "#565d66",
    "grid": "#e6e8eb",
    "axis": "#8b929a",
    "paper": "#ffffff",
}
DARK: dict[Tone | str, str] = {
    Tone.MAIN: "#6cb8f0",
    Tone.SECOND: "#ff9a57",
    Tone.THIRD: "#3fcfa8",
    Tone.FOURTH: "#eba0c8",
    Tone.FIFTH: "#e2cf4a",
    Tone.MUTED: "#9aa2ab",
    Tone.LIMIT: "#ff8080",
    "text": "#e8eaed",
    "quiet": "#a9b1ba",
    "grid": "#2c3138",
    "axis": "#727a84",
    "paper": "#15181c",
}
TERMINAL: dict[Tone, str] = {
    Tone.MAIN: "34;1",
    Tone.SECOND: "33",
    Tone.THIRD: "36",
    Tone.FOURTH: "35",
    Tone.FIFTH: "32",
    Tone.MUTED: "2",
    Tone.LIMIT: "31",
}


def name(tone: Tone | str) -> str:
    """The class of a colour in a style sheet."""
    return tone if isinstance(tone, str) else tone.name.lower()
