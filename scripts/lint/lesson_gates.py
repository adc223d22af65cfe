"""Gates on lessons: every apps/NN_name has a full README that shows its sources as they are, and a test."""

import re
import textwrap

SECTIONS = ("Question", "The slots", "The program", "Run it", "Now break it", "What the checker says", "Exercises",
            "Further reading")
_LESSON = re.compile(r"(apps/\d\d_\w+)/")
_TEST_COMMAND = re.compile(r"^\s*(add_test|shmoe_test|shmoe_lesson)\s*\(", re.M)


def _lessons(tree):
    return sorted({m.group(1) for m in map(_LESSON.match, (s.path for s in tree.sources)) if m})


def _sections(text):
    """Title -> body, in the order of the page. A '## ' inside a fenced block is no title."""
    found, title, fenced = {}, None, False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            title = line[3:].strip()
            found[title] = ""
        elif title:
            found[title] += line + "\n"
    return found


def _readme_faults(text):
    sections = _sections(text)
    for title in SECTIONS:
        if title not in sections:
            yield f"no section '## {title}'"
        elif not sections[title].strip():
            yield f"section '## {title}' is empty"
    known = [t for t in sections if t in SECTIONS]
    if known != [t for t in SECTIONS if t in known]:
        yield "sections are out of order: " + ", ".join(known)
    needs = (("The slots", r"^```|!\[|<svg", "shows no drawing"),
             ("The program", r"^<!-- listing: ", "shows no listing from the source"),
             ("Run it", r"^<!-- output: ", "shows no output with its '<!-- output: ... -->' mark"))
    for title, pattern, fault in needs:
        if title in sections and not re.search(pattern, sections[title], re.M):
            yield f"'## {title}' {fault}"
    if len(re.findall(r"^\d+\. ", sections.get("Exercises", ""), re.M)) < 3:
        yield "fewer than three numbered exercises"


def check_lessons(tree):
    """a lesson has a README with all sections of the template, and a test that runs it"""
    by_path = {s.path: s for s in tree.sources}
    found = []
    for lesson in _lessons(tree):
        readme = by_path.get(f"{lesson}/README.md")
        found += [f"{lesson}/README.md: {fault}" for fault in (_readme_faults(readme.text) if readme else ["missing"])]
        own = by_path.get(f"{lesson}/CMakeLists.txt")
        tests = by_path.get("tests/apps/CMakeLists.txt")
        name = lesson.split("/")[1]
        if not (own and _TEST_COMMAND.search(own.text)) and not (tests and re.search(rf"\b{name}\b", tests.text)):
            found.append(f"{lesson}: no test; add one in its CMakeLists.txt or name it in tests/apps/CMakeLists.txt")
    return found


# <!-- listing: path tag --> and the fenced block after it
_LISTING = re.compile(r"^(<!-- listing: (\S+) (\S+) -->\n```[^\n]*\n)(.*?)^```$", re.M | re.S)
_LISTING_MARK = re.compile(r"^\s*<!-- listing\b.*$", re.M)
_ANY_MARK = re.compile(r"^\s*(?://|#) \[/?[\w-]+\]\s*$")


def tagged_text(text, tag):
    """The lines between `// [tag]` and `// [/tag]` (`#` in scripts), dedented, without other marks; None if not there."""
    lines = text.splitlines()
    opening = [n for n, line in enumerate(lines) if re.fullmatch(rf"\s*(//|#) \[{re.escape(tag)}\]\s*", line)]
    closing = [n for n, line in enumerate(lines) if re.fullmatch(rf"\s*(//|#) \[/{re.escape(tag)}\]\s*", line)]
    if len(opening) != 1 or len(closing) != 1 or closing[0] < opening[0]:
        return None
    kept = [line for line in lines[opening[0] + 1:closing[0]] if not _ANY_MARK.match(line)]
    return textwrap.dedent("\n".join(kept)).strip("\n") + "\n"


def _expected_listing(by_path, match):
    source = by_path.get(match.group(2))
    return source and tagged_text(source.text, match.group(3))


def _pages(tree):
    return {s.path: s for s in tree.sources}, [s for s in tree.sources if s.suffix == ".md"]


def fix_listings(tree):
    by_path, pages = _pages(tree)

    def renewed(match):
        expected = _expected_listing(by_path, match)
        return match.group() if expected is None else f"{match.group(1)}{expected}```"

    for page in pages:
        text = _LISTING.sub(renewed, page.text)
        if text != page.text:
            page.file.write_text(text, encoding="utf-8")


def check_listings(tree):
    """a listing in a README is the source, word for word; scripts/lint.sh --fix copies it"""
    by_path, pages = _pages(tree)
    found = []
    for page in pages:
        listings = list(_LISTING.finditer(page.text))
        if len(listings) != len(_LISTING_MARK.findall(page.text)):
            found.append(f"{page.path}: a mark '<!-- listing: path tag -->' without a fenced block right below it")
        for match in listings:
            line = page.text.count("\n", 0, match.start()) + 1
            expected = _expected_listing(by_path, match)
            if expected is None:
                found.append(f"{page.path}:{line}: {match.group(2)} has no part '// [{match.group(3)}]'")
            elif expected != match.group(4):
                found.append(f"{page.path}:{line}: differs from {match.group(2)} [{match.group(3)}]")
    return found
