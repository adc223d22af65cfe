"""The little C++ reading that mutation needs: functions, statements and calls of clang-formatted sources.

Everything works on `masked`, the text with comments, literals and preprocessor lines blanked: as long as the text, so
that positions mean the same in both.
"""

import re
from dataclasses import dataclass, field

BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?![0-9A-Fa-f])|^[ \t]*#[^\n]*', re.S | re.M)
CLOSING = {"(": ")", "[": "]", "{": "}"}


def mask(text):
    def blank(found):
        # The digit separator of 0x100'0000 is no literal.
        return re.sub(r"[^\n]", " ", found.group())

    return BLANKED.sub(blank, text)


def one_line(text):
    return " ".join(text.split())


@dataclass
class Statement:
    kind: str  # "plain", "control" or "block"
    start: int
    end: int
    children: list = field(default_factory=list)  # of a control or a block
    head: tuple = ()  # of a control: where its parentheses lie

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class Function:
    name: str
    start: int  # of the body's brace
    end: int
    body: list  # statements

    def statements(self):
        for statement in self.body:
            yield from statement.walk()


@dataclass
class Call:
    name: str
    receiver: str  # "context_->" or "sync." or ""
    start: int  # of the receiver
    open: int  # of the parenthesis
    end: int
    arguments: list  # (start, end), trimmed


class Source:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.masked = mask(text)

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def piece(self, start, end):
        return one_line(self.text[start:end])

    def match(self, at):
        """Behind the bracket that closes the one at `at`."""
        depth = 0
        for i in range(at, len(self.masked)):
            c = self.masked[i]
            if c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
                if depth == 0:
                    return i + 1
        raise ValueError(f"{self.path}:{self.line(at)}: unbalanced '{self.masked[at]}'")

    def skip_space(self, at):
        while at < len(self.masked) and self.masked[at].isspace():
            at += 1
        return at

    def split(self, start, end):
        """The comma-separated parts of [start, end), trimmed."""
        parts = []
        begin = at = start
        while at <= end:
            c = self.masked[at] if at < end else ","
            if c in CLOSING:
                at = self.match(at)
                continue
            if c == ",":
                first, last = self.skip_space(begin), at
                while last > first and self.masked[last - 1].isspace():
                    last -= 1
                if last > first:
                    parts.append((first, last))
                begin = at + 1
            at += 1
        return parts

    # Functions

    def functions(self):
        return list(self._functions(0, len(self.masked)))

    def _functions(self, start, end):
        begin = at = start
        while at < end:
            c = self.masked[at]
            if c == ";":
                begin = at + 1
            elif c == "{":
                close = self.match(at)
                head = self.masked[begin:at].strip()
                name = re.search(r"([\w:~]+)\s*\(", head)
                if re.search(r"\b(?:namespace|class|struct)\b[^()=;]*$", head):
                    yield from self._functions(at + 1, close - 1)
                elif name and "=" not in head.split("(")[0]:
                    if re.search(r"[\w>]$", head) and not head.endswith(("const", "noexcept", "override")):
                        at = close  # an initialiser in braces: the body comes later
                        continue
                    yield Function(name.group(1).split("::")[-1], at, close, self._block(at + 1, close - 1))
                begin = at = close
                continue
            elif c in "([":
                at = self.match(at)
                continue
            at += 1

    # Statements

    def _block(self, start, end):
        found = []
        at = self.skip_space(start)
        while at < end:
            statement = self._statement(at, end)
            found.append(statement)
            at = self.skip_space(statement.end)
        return found

    def _statement(self, at, end):
        if self.masked[at] == "{":
            close = self.match(at)
            return Statement("block", at, close, self._block(at + 1, close - 1))
        keyword = re.compile(r"(if|for|while|switch)\s*\(").match(self.masked, at)
        if keyword:
            return self._control(at, keyword.end() - 1, end)
        label = re.compile(r"(case\b[^;{}]*?[^:]:|default:|public:|private:)(?!:)\s*").match(self.masked, at)
        if label:
            return self._statement(label.end(), end)
        begin = at
        children = []
        while at < end and self.masked[at] != ";":
            if self.masked[at] in CLOSING:
                close = self.match(at)
                children += self._lambdas(at, close)
                at = close
            else:
                at += 1
        return Statement("plain", begin, min(at + 1, end), children)

    def _control(self, at, parenthesis, end):
        close = self.match(parenthesis)
        body = self._statement(self.skip_space(close), end)
        result = Statement("control", at, body.end, [body], (parenthesis, close))
        other = re.compile(r"\s*else\b\s*").match(self.masked, body.end)
        if other:
            alternative = self._statement(other.end(), end)
            result.children.append(alternative)
            result.end = alternative.end
        return result

    def _lambdas(self, start, end):
        """The statements of lambdas within one statement."""
        found = []
        for head in re.compile(r"\[[&=\w, ]*\]\([^()]*\)\s*\{").finditer(self.masked, start, end):
            close = self.match(head.end() - 1)
            found.append(Statement("block", head.end() - 1, close, self._block(head.end(), close - 1)))
        return found

    # Calls

    def calls(self, start, end, names):
        """Calls of these names. Not the name behind `::`, which is a declaration or a static function."""
        pattern = re.compile(r"(?<![\w:.>])((?:\w+(?:\(\))?\s*(?:\.|->)\s*)*)(" + "|".join(names) + r")\(")
        for found in pattern.finditer(self.masked, start, end):
            opening = found.end() - 1
            close = self.match(opening)
            yield Call(found.group(2), one_line(found.group(1)).replace(" ", ""), found.start(), opening, close,
                       self.split(opening + 1, close - 1))
