"""The page of a run as people see it: pictures of it on wide and narrow, light and dark screens; and what is wrong.

    python tools/screenshots.py [--folder build/screenshots] [PAGE.html]

The page is one of a made-up run, or the given one. Exit code 1: it is wider than the screen, or texts of a drawing lie
on each other or are too small to be read. Without Chromium there are no pictures, which is said.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from chromium import Chromium, find

from layoutkit.bench import page

SUITES = "resnet50", "reorder-4d", "reorder-5d"
SIZES = (1280, 900), (390, 844)
SCHEMES = "light", "dark"
SMALLEST_TEXT_PIXELS = 9  # of a font

# A function of the screen's width that says what is wrong in the page with all that is folded open, as texts. The boxes
# of texts may share the room that letters leave free above and below.
WRONG = f"""
(width => {{
  const wrong = [], page = document.scrollingElement;
  document.querySelectorAll("details").forEach(folded => {{ folded.open = true; }});
  if (page.scrollWidth > width) wrong.push(`the page is ${{page.scrollWidth}} pixels wide`);
  document.querySelectorAll("svg").forEach(svg => {{
    const name = svg.getAttribute("aria-label") || "a drawing without a name";
    if (!svg.getAttribute("aria-label") || svg.getAttribute("role") != "img") wrong.push(`${{name}}: no image by role`);
    const scale = svg.getScreenCTM().a, shown = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim());
    const small = shown.filter(t => parseFloat(getComputedStyle(t).fontSize) * scale < {SMALLEST_TEXT_PIXELS});
    small.forEach(t => wrong.push(`${{name}}: "${{t.textContent}}" is small`));
    const texts = shown.map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
    texts.forEach(([a, p], i) => {{
      texts.slice(i + 1).forEach(([b, q]) => {{
        const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (wide > 0 && high > 0.15 * Math.min(p.height, q.height))
          wrong.push(`${{name}}: "${{a}}" and "${{b}}" lie on each other`);
      }});
    }});
  }});
  return wrong;
}})
"""


def look(browser: Chromium, url: str, folder: Path) -> Iterator[str]:
    """Take the pictures; what is wrong."""
    for width, height in SIZES:
        for scheme in SCHEMES:
            browser.open(url, width, height, scheme)
            name = f"{width}-{scheme}"
            (folder / f"{name}.png").write_bytes(browser.picture())
            yield from (f"{name}: {wrong}" for wrong in browser.value(f"{WRONG}({width})"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="tools/screenshots.py", description=(__doc__ or "").partition(":")[0])
    p.add_argument("page", nargs="?", type=Path, metavar="PAGE.html", help="default: the page of a made-up run")
    p.add_argument("--folder", type=Path, default=Path("build/screenshots"), help="default %(default)s")
    args = p.parse_args(argv)
    program = find()
    if program is None:
        print("no Chromium here: no screenshots")
        return 0
    args.folder.mkdir(parents=True, exist_ok=True)
    file = args.page
    if file is None:
        import made_up_run

        file = args.folder / "page.html"
        page.write(made_up_run.run(*SUITES), file)
    with Chromium(program) as browser:
        wrong = list(look(browser, file.resolve().as_uri(), args.folder))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(SIZES) * len(SCHEMES)} screenshots in {args.folder}, {len(wrong)} things wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
