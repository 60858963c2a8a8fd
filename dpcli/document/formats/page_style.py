"""How a page looks: light and dark paper, narrow screens, print. No fonts, pictures or scripts from anywhere."""

from __future__ import annotations

from dpcli.document.chart import Tone
from dpcli.document.charts.colours import DARK, LIGHT
from dpcli.document.charts.svg import FONTS, dark_rules


def style() -> str:
    """The style sheet; the same bytes for every page."""
    return f":root{{{_colours(LIGHT)}--alarm:#8a1c1c;--alarm-paper:#fdf0ef;}}\n{_RULES}\n{_dark()}\n{_PRINT}"


def _colours(palette: dict[Tone | str, str]) -> str:
    return "".join(f"--{name}:{palette[name]};" for name in ("text", "quiet", "grid", "axis", "paper"))


def _dark() -> str:
    return (
        "@media screen and (prefers-color-scheme:dark){"
        f":root{{{_colours(DARK)}--alarm:#ff9a90;--alarm-paper:#35191b;}} {dark_rules()}}}"
    )


_RULES = f"""
*{{box-sizing:border-box}}
html{{color-scheme:light dark;-webkit-text-size-adjust:100%}}
body{{margin:0;background:var(--paper);color:var(--text);font:16px/1.55 {FONTS}}}
.page{{max-width:64rem;margin:0 auto;padding:2rem 1.25rem 4rem}}
h1{{font-size:1.6rem;line-height:1.25;margin:0 0 1rem;overflow-wrap:anywhere}}
h2{{font-size:1.15rem;line-height:1.3;margin:2.25rem 0 .5rem;overflow-wrap:anywhere}}
p{{margin:.5rem 0;max-width:44rem;overflow-wrap:anywhere}}
ul{{margin:.5rem 0;padding-left:1.25rem;max-width:44rem}}
.many{{columns:20rem;column-gap:2rem;max-width:none}}
.together{{white-space:nowrap}}
li{{break-inside:avoid;margin:0 0 .3rem;overflow-wrap:anywhere}}
.headline{{font-size:1.1rem;border-left:4px solid var(--axis);padding:.4rem .9rem;margin:1rem 0;max-width:none}}
.pass{{border-color:#00705a}}.warn{{border-color:#b84700}}
.fail,.unknown{{border-color:var(--alarm);background:var(--alarm-paper)}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:.92rem}}
caption{{text-align:left;font-weight:600;font-size:1.15rem;padding:2.25rem 0 .5rem}}
th,td{{text-align:left;vertical-align:top;padding:.4rem 1.1rem .4rem 0;border-bottom:1px solid var(--grid)}}
th:last-child,td:last-child{{padding-right:0}}
.mark{{width:1px;white-space:nowrap}}
h1::first-letter,h2::first-letter,caption::first-letter{{text-transform:uppercase}}
thead th{{color:var(--quiet);font-weight:400;border-bottom-color:var(--axis);white-space:nowrap}}
tbody th{{font-weight:400}}
.number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.flagged td:last-child{{color:var(--alarm)}}
.foot{{color:var(--quiet);font-size:.85rem}}
figure{{margin:1.5rem 0;overflow-x:auto}}
svg{{display:block;max-width:100%;height:auto}}
@media screen and (max-width:40rem){{
svg{{min-width:34rem}}
thead th,thead .number{{white-space:normal}}
.words thead{{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}}
.words table,.words caption,.words tbody,.words tr,.words th{{display:block}}
.words td{{display:inline}}
.words th,.words td{{width:auto;border:0;padding:0}}
.words tr{{border-bottom:1px solid var(--grid);padding:.6rem 0}}
.words td:not(:empty)~td:not(:empty)::before{{content:" \\b7  "}}
.words tbody th{{color:var(--quiet)}}
}}"""

_PRINT = """@media print{
body{font-size:10pt}
.page{max-width:none;padding:0}
h2,caption{break-after:avoid}
tr,figure,li{break-inside:avoid}
.scroll,figure{overflow:visible}
.many{columns:2}
figure svg{max-width:32rem}
figure{margin:.5rem 0}
thead{display:table-header-group}
}"""
