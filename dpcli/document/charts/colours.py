"""The palettes of charts for light and dark paper and for terminals, readable with colour blindness (after Okabe & Ito 2008)."""

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
    "empty": "#cfd4da",
    "step0": "#d3e6f5",
    "step1": "#a3cbe8",
    "step2": "#6aa8d6",
    "step3": "#2f74ab",
    "step4": "#1a4f82",
    "step5": "#0b2545",
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
    "empty": "#444b54",
    "step0": "#1b3853",
    "step1": "#244f75",
    "step2": "#2f6a97",
    "step3": "#5b9fd4",
    "step4": "#94c8f0",
    "step5": "#e3f3ff",
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
    """Return the class of a colour in a style sheet."""
    return tone if isinstance(tone, str) else tone.name.lower()
