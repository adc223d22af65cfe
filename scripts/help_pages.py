#!/usr/bin/env python3
"""Manual pages and bash completion, made from what --help prints.

usage: help_pages.py FOLDER SHMOE [SHMOE_BENCH]
  FOLDER   gets man1/*.1, a page a command, and shmoe.bash
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^(Options|Positionals|Subcommands):$")
_COLUMNS = re.compile(r" {2,}")


@dataclass
class Command:
    """One command as its --help tells it. Blocks hold (words, meaning)."""

    path: list
    usage: str = ""
    description: list = field(default_factory=list)
    blocks: dict = field(default_factory=dict)
    footer: list = field(default_factory=list)
    children: list = field(default_factory=list)

    @property
    def page(self):
        return "-".join(self.path)

    def words(self, block):
        """The words that begin an entry: --ranks and -n, or the name of a command."""
        return [word for words, _ in self.blocks.get(block, ()) for word in words.split()[0].split(",")]


def parse(path, text):
    command = Command(path)
    before, _, behind = text.partition("Usage: ")
    command.description = before.rstrip("\n").splitlines()
    lines = behind.splitlines()
    command.usage = lines.pop(0) if lines else " ".join(path)
    entries = None
    for line in lines:
        if found := _BLOCK.match(line):
            entries = command.blocks.setdefault(found.group(1), [])
        elif entries is None or (line and not line.startswith(" ")):
            entries = None
            command.footer.append(line)
        elif re.match(r"  \S", line):
            words, *meaning = _COLUMNS.split(line.strip(), maxsplit=1)
            # In the list of commands a long name leaves one blank before its meaning.
            if not meaning and entries is command.blocks.get("Subcommands"):
                words, *meaning = words.split(" ", maxsplit=1)
            entries.append((words, " ".join(meaning)))
        elif line.strip() and entries:
            words, meaning = entries[-1]
            entries[-1] = (words, f"{meaning} {line.strip()}".strip())
    return command


class Programs:
    def __init__(self, shmoe, bench=None):
        self._shmoe, self._bench = shmoe, bench

    def help_of(self, path):
        text = self._ask(self._shmoe, *path[1:])
        # `shmoe bench` hands over to a program of its own, which knows the commands.
        if path == ["shmoe", "bench"] and self._bench:
            text += "\n" + self._ask(self._bench)
        return text

    def tree(self, path):
        command = parse(path, self.help_of(path))
        command.children = [self.tree([*path, name]) for name in command.words("Subcommands")]
        return command

    @staticmethod
    def _ask(program, *words):
        ran = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True, timeout=60)
        return ran.stdout


def every(command):
    yield command
    for child in command.children:
        yield from every(child)


def escaped(text):
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return re.sub(r"^\.", r"\\&.", text)


def prose(lines):
    """Running text is filled; what is indented, or set in columns, stays as it is."""
    out, as_it_is = [], False
    for line in lines:
        keep = line.startswith(" ") or (as_it_is and not line)
        if keep != as_it_is:
            out.append(".nf" if keep else ".fi")
            as_it_is = keep
        if line:
            out.append(escaped(line))
        elif out and out[-1] != ".PP":
            out.append(".sp" if as_it_is else ".PP")
    if as_it_is:
        out.append(".fi")
    while out and out[-1] == ".PP":
        out.pop()
    return out


def entries(block):
    for words, meaning in block:
        names, *rest = words.split(" ", maxsplit=1)
        head = ", ".join(rf"\fB{escaped(name)}\fR" for name in names.split(","))
        yield from (".TP", " ".join([head, *map(escaped, rest)]), escaped(meaning) or r"\&")


def settings(lines):
    """The table of settings: its first line names the columns, and where each begins."""
    head = lines[0]
    starts = [head.index(name) for name in ("variable", "default", "takes", "meaning")]
    for line in filter(None, lines[1:]):
        name, default, takes, meaning = (line[a:b].strip() for a, b in zip(starts, [*starts[1:], None]))
        unset = "no default" if default == "-" else f"default: {default}"
        yield from (".TP", rf"\fB{escaped(name)}\fR", escaped(f"{meaning}. Takes {takes}; {unset}."))


def footer(lines):
    for at, line in enumerate(lines):
        if line.startswith("variable "):
            return [".SH ENVIRONMENT", *settings(lines[at:])]
    text = prose(lines)
    return [".SH NOTES", *text] if "".join(lines).strip() else []


def manual(command, version):
    words = " ".join(command.path)
    short = command.description[0].removeprefix(f"{words}: ").split(". ")[0].rstrip(".")
    out = [f'.TH {command.page.upper()} 1 "" "{version}" "shmoe"',
           ".SH NAME", rf"{escaped(command.page)} \- {escaped(short)}",
           ".SH SYNOPSIS", rf"\fB{escaped(words)}\fR {escaped(command.usage.removeprefix(words).strip())}",
           ".SH DESCRIPTION", *prose(command.description)]
    for block, title in (("Positionals", "ARGUMENTS"), ("Options", "OPTIONS"), ("Subcommands", "COMMANDS")):
        if block in command.blocks:
            out += [f".SH {title}", *entries(command.blocks[block])]
    out += footer(command.footer)
    others = [command.path[:-1], *(child.path for child in command.children)]
    see = ", ".join(rf"\fB{escaped('-'.join(path))}\fR(1)" for path in others if path)
    return "\n".join([*out, *([".SH SEE ALSO", see] if see else [])]) + "\n"


_COMPLETION = """\
# Completion of shmoe in bash, made from its --help.
_shmoe() {
  local -A commands=(
%s
  ) options=(
%s
  )
  local at=shmoe current=${COMP_WORDS[COMP_CWORD]} i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    # Behind -- stands a command line of its own.
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi
      return
    fi
    if [[ -n ${options[$at ${COMP_WORDS[i]}]:-} ]]; then at+=" ${COMP_WORDS[i]}"; fi
  done
  local words=${commands[$at]:-}
  if [[ $current == -* ]]; then words=${options[$at]}; fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _shmoe shmoe
"""


def completion(commands):
    def table(block):
        return "\n".join(f'    ["{" ".join(c.path)}"]="{" ".join(c.words(block))}"'
                         for c in commands if c.words(block))
    return _COMPLETION % (table("Subcommands"), table("Options"))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, programs = Path(sys.argv[1]), sys.argv[2:]
    version = subprocess.run([programs[0], "--version"], capture_output=True, text=True, check=True).stdout.strip()
    commands = list(every(Programs(*programs).tree(["shmoe"])))
    man = folder / "man1"
    shutil.rmtree(man, ignore_errors=True)
    man.mkdir(parents=True)
    for command in commands:
        (man / f"{command.page}.1").write_text(manual(command, version))
    (folder / "shmoe.bash").write_text(completion(commands))


if __name__ == "__main__":
    main()
