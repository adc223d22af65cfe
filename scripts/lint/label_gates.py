"""The gates on labels of public comments: what is ordered before what, and what can go wrong."""

import re
from dataclasses import dataclass

_ORDERING = re.compile(r"(?<![\w:.>~])((?:wait|notify|signal|put|fence|quiet|barrier|sync_all)(?:_\w+)?"
                   r"|get|read|test|check_flag|launch|abort|free|communicator|finalize)\s*\(")
_FUNCTION = re.compile(r"(?<![\w:.>~])(\w+)\s*\(")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
_CLASS = re.compile(r"\b(class|struct|union)\s+[\w:]+")


@dataclass
class _Scope:
    kind: str  # namespace, class or other
    access: str
    line: int


def _scope_of(head, line):
    """What a brace opens, from the text before it."""
    head = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)", "", head, flags=re.S)
    namespace = re.search(r"\bnamespace\b([\w\s:]*)$", head)
    if namespace:
        hidden = "detail" in namespace.group(1) or not namespace.group(1).strip()
        return _Scope("other" if hidden else "namespace", "public", line)
    if head.strip() == "extern":  # extern "C"; the literal is blanked
        return _Scope("namespace", "public", line)
    classes = list(_CLASS.finditer(head))
    is_class = classes and "(" not in head and "=" not in head[classes[-1].end():] and not re.search(r"\benum\b", head)
    if is_class:
        return _Scope("class", "private" if classes[-1].group(1) == "class" else "public", line)
    return _Scope("other", "private", line)


def _declarations(code, name):
    """Yields (line, line of the class or None, text before the name, text from the name on) of public functions that
    `name` finds."""
    code = _DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)
    names = {found.start(1) for found in name.finditer(code)}
    scopes, pending = [], None
    head_start = 0  # where the text of the current declaration starts
    parens = 0
    for at, char in enumerate(code):
        if at in names and parens == 0 and pending is None and _is_public(scopes):
            pending = (at, code[head_start:at])
        if char == "(":
            parens += 1
        elif char == ")":
            parens -= 1
        elif char == ":" and scopes and scopes[-1].kind == "class":
            access = re.search(r"\b(public|private|protected)\s*$", code[head_start:at])
            if access:
                scopes[-1].access = access.group(1)
                head_start = at + 1
        elif char in "{;}" and parens == 0:
            if pending:
                name_at, head = pending
                in_class = scopes and scopes[-1].kind == "class"
                yield _line(code, name_at), scopes[-1].line if in_class else None, head, code[name_at:at]
                pending = None
            if char == "{":
                head = code[head_start:at]
                scopes.append(_scope_of(head, _line(code, head_start + len(head) - len(head.lstrip()))))
            elif char == "}" and scopes:
                scopes.pop()
            head_start = at + 1


def _line(code, at):
    return code.count("\n", 0, at) + 1


def _is_public(scopes):
    return all(s.kind in ("namespace", "class") and s.access == "public" for s in scopes)


def _is_exempt(head, tail):
    # No return type: a macro. constexpr: computes, never waits. An override keeps the order its base promises. A const
    # function without arguments is an accessor.
    kind = re.sub(r"\[\[.*?\]\]", "", head, flags=re.S)
    while re.search(r"<[^<>]*>", kind):
        kind = re.sub(r"<[^<>]*>", "", kind)
    if not kind.strip() or re.search(r"=|\b(return|constexpr|consteval|using|friend|define)\b", kind):
        return True
    return bool(re.search(r"\boverride\b|\bfinal\b|=\s*delete|^\w+\s*\(\s*\)\s*const\b", tail))


def _block_above(lines, at, floor):
    """The lines without a gap above index `at`."""
    start = at
    while start > floor and lines[start - 1].strip():
        start -= 1
    return lines[start:at]


def _section_comment(lines, at, floor):
    """The nearest comment above index `at` that stands alone: with a blank line below it."""
    for end in range(at - 1, floor, -1):
        if not lines[end].strip() and lines[end - 1].strip().startswith("//"):
            return _block_above(lines, end, floor)
    return []


def _has_label(label, lines, number, class_line):
    at = number - 1
    floor = class_line or 0
    if _label_in(label, _block_above(lines, at, floor)):
        return True
    if class_line is None:
        return False
    return (_label_in(label, _section_comment(lines, at, floor))
            or _label_in(label, _block_above(lines, class_line - 1, 0)))


def _label_in(label, lines):
    return any(re.match(rf"\s*//[/!]?.*\b{label}:", line) for line in lines)


def _unlabelled(tree, label, name, is_exempt):
    found = []
    for s in tree.headers("shmem", "bootstrap", "runtime", "ops"):
        if "/detail/" in s.path:
            continue
        for line, class_line, head, tail in _declarations(s.code, name):
            if not is_exempt(head, tail) and not _has_label(label, s.lines, line, class_line):
                found.append(s.where(line))
    return found


def check_order(tree):
    """a public function that puts, gets, notifies, fences, waits or ends says its order in an `Order:` line"""
    return _unlabelled(tree, "Order", _ORDERING, _is_exempt)


def _cannot_fail(head, tail):
    # An override fails as its base does.
    returns = re.search(r"(?<![\w<:])(?:shmem::)?Result<[^;={}]*>\s*$", head)
    return not returns or bool(re.search(r"\boverride\b|=\s*delete", tail))


def check_errors(tree):
    """a public function that returns a Result says in an `Errors:` line which errors and when"""
    return _unlabelled(tree, "Errors", _FUNCTION, _cannot_fail)
