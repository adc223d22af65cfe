"""The mutation operators: what is put in place of what.

Each looks at one function and yields mutants. A mutant is one or more pieces of text, each switched at run time:

  guard   if (!SWITCH) statement
  expr    (SWITCH ? other : expression)
  before  if (SWITCH) { other } else statement
"""

import hashlib
import re
from dataclasses import dataclass

# What comes back in place of a call that is left out; a wait that is skipped proves nothing, but its type must fit.
WITNESS = "::shmoe::shmem::Witness::own()"
TOKEN = "::shmoe::shmem::Token({}, site)"
LEFT_OUT = {
    "wait": TOKEN, "wait_flag": TOKEN, "wait_flag_with_magic": TOKEN,
    "wait_flag_batch": WITNESS, "wait_flag_range": WITNESS, "wait_flag_range_with_magic": WITNESS,
    "wait_all_rank_all_event": WITNESS, "wait_layout_status": WITNESS, "wait_sync_flag": WITNESS, "local_layout": WITNESS,
    "sync_all": WITNESS, "barrier_all": WITNESS, "barrier": WITNESS, "enter": WITNESS,
    "test": "::std::optional<::shmoe::shmem::Token>(::std::in_place, ::shmoe::shmem::Arrival{}, ::shmoe::SourceSite{})",
}
SENDS = ("fence", "quiet", "signal", "signal_each", "put_signal", "set_flag", "set_flag_batch", "set_all_rank_core_flag", "put", "get")
PARTS = ("publish", "signal_slice", "wait_slice", "compare_slice", "leave_on_fault", "note",
         "send_rows", "sum_tokens", "fetch_gradients", "choose", "wait_measured", "collect_counts", "derive_tables", "count_own_tokens", "fold_own_columns", "number_own_tokens",
         "keep_in_step", "count",
         "local_layout", "store_counts", "set_layout_status", "send_count_notify", "wait_notify", "count_own_rows",
         "input_to_dst_output", "set_sync_flag", "wait_sync_flag", "clean_up", "copy_valid_expand_x_to_remote",
         "tell_each", "open", "close", "store_rounds", "check_in_flight", "read_error")
CALLS = (*LEFT_OUT, *SENDS, *PARTS)
# Those that every rank and every core must make: one of them alone may leave it out.
COLLECTIVE = ("quiet", "signal", "signal_each", "set_flag", "set_flag_batch", "sync_all", "barrier_all", "barrier", "enter",
              "signal_slice", "wait_slice", "wait_flag", "wait")


@dataclass
class Piece:
    start: int
    end: int
    kind: str
    other: str = ""
    when: str = ""  # a further condition of the switch


@dataclass
class Mutant:
    source: object
    function: object
    operator: str
    pieces: list
    before: str
    after: str
    key: str = ""
    number: int = 0

    @property
    def where(self):
        return f"{self.source.path}:{self.source.line(self.pieces[0].start)}"


class Operators:
    """All mutants of one function."""

    def __init__(self, source, function, me):
        self.source = source
        self.function = function
        self.me = me  # how this file asks for its rank: "context_->"
        self.plain = [s for s in function.statements() if s.kind == "plain"]
        self.controls = [s for s in function.statements() if s.kind == "control"]

    def text(self, span):
        return self.source.piece(*span)

    def mutant(self, operator, pieces, after, before=None):
        first = pieces[0]
        return Mutant(self.source, self.function, operator, pieces,
                      self.text((first.start, first.end)) if before is None else before, after)

    def expression(self, operator, span, other, when=""):
        after = f"{other}, where {when}" if when else other
        return self.mutant(operator, [Piece(*span, "expr", other, when)], after)

    def calls(self, names=CALLS):
        return [c for c in self.source.calls(self.function.start, self.function.end, names)
                if c.receiver in ("", "context.", "context_->", "context_.", "sync.", "sync_->", "sync_.", "core.", "fabric.",
                                  "counter.", "row.", "combiner.")]

    def all(self):
        for operator in (self.left_out, self.weaker_quiet, self.increments, self.sums, self.compares, self.values,
                         self.slots, self.parity, self.words, self.loops, self.slices, self.swaps, self.ranks,
                         self.places):
            yield from operator()

    # Calls

    def conditions(self, name):
        """Everywhere, and where it is a duty of all, by one rank or one core only."""
        yield "", ""
        if name in COLLECTIVE:
            yield "-rank0", f"{self.me}rank() == ::shmoe::Rank{{0}}"
            if self.source.path != "runtime/communicator.cpp":
                yield "-core0", f"{self.me}core() == ::shmoe::Core{{0}}"

    def left_out(self):
        for call in self.calls():
            statement = next((s for s in self.plain if s.start == call.start), None)
            tail = self.source.masked[call.end:statement.end] if statement else ""
            for suffix, when in self.conditions(call.name):
                if statement and tail in (";", ".ordering_only();"):
                    piece = Piece(statement.start, statement.end, "guard", when=when)
                    yield self.mutant("remove" + suffix, [piece], f"nothing, where {when}" if when else "nothing")
                elif call.name in LEFT_OUT:
                    yield self.expression("remove" + suffix, *self.value_of(call), when)

    def value_of(self, call):
        consume = re.search(r"consume_token\($", self.source.masked[:call.start])
        if consume:
            return (consume.start(), self.source.match(consume.end() - 1)), WITNESS
        return (call.start, call.end), LEFT_OUT[call.name]

    def weaker_quiet(self):
        for call in self.calls(["quiet"]):
            statement = next(s for s in self.plain if s.start == call.start)
            other = f"{call.receiver}fence({self.me}rank());"
            yield self.mutant("quiet-to-fence", [Piece(statement.start, statement.end, "before", other)], other)

    # Counters

    def increments(self):
        for statement in self.plain:
            for found in re.finditer(r"\+\+([\w.]+(?:\[[^\[\]]*\])?)|([\w.]+(?:\[[^\[\]]*\])?)\+\+",
                                     self.source.masked[statement.start:statement.end]):
                span = (statement.start + found.start(), statement.start + found.end())
                name = found.group(1) or found.group(2)
                counter = re.search(r"magic|barriers|sequence|generation", name)
                cases = [("", "")]
                if counter:
                    rank0 = f"{self.me}rank() == ::shmoe::Rank{{0}}"
                    core0 = f"{self.me}core() == ::shmoe::Core{{0}}"
                    cases += [("-rank0", rank0), ("-core0", core0), ("-once", f"{name} == 1"),
                              ("-once-rank0", f"{name} == 1 && {rank0}")]
                for suffix, when in cases:
                    yield self.expression("no-increment" + suffix, span, name, when)

    def sums(self):
        for statement in self.plain:
            if re.match(r"[\w.]+(\[[^\[\]]*\])? \+= ", self.source.masked[statement.start:statement.end]):
                yield self.mutant("no-sum", [Piece(statement.start, statement.end, "guard")], "nothing")

    # Waits

    def compares(self):
        for found in re.finditer(r"context_->profile\(\)\.compare|Compare::at_least", self.body()):
            span = self.span(found)
            compare = self.text(span)
            if compare.startswith("Compare"):
                yield self.expression("compare-equal", span, "::shmoe::Compare::equal")
            else:
                yield self.expression(
                    "compare-other", span,
                    f"({compare} == ::shmoe::Compare::equal ? ::shmoe::Compare::at_least : ::shmoe::Compare::equal)")
                yield self.expression("compare-not-equal", span, "::shmoe::Compare::not_equal")

    def values(self):
        spans = []
        for call in self.calls(["wait", "test"]):
            if len(call.arguments) == 4:
                spans.append(call.arguments[2])
            for found in re.compile(r"\.value = ").finditer(self.source.masked, call.open, call.end):
                spans.append(self.source.split(found.end(), self.end_of_field(found.end()))[0])
        for call in self.calls(["signal", "signal_each"]):
            spans.append(call.arguments[3])
        for call in self.calls(["set_flag", "wait_flag"]):
            spans.append(call.arguments[2])
        for span in spans:
            for other in ("- 1", "+ 1", *(["- 256"] if self.text(span) in ("barrier.word", "word()") else [])):
                yield self.expression("value", span, f"{self.text(span)} {other}")

    def end_of_field(self, at):
        while self.source.masked[at] not in ",}":
            at = self.source.match(at) if self.source.masked[at] in "([{" else at + 1
        return at

    # Slots

    def slots(self):
        for found in re.finditer(r"(?:[\w.>-]*slots\(\)\.\w+\(\)|region_->status\(\)|flags\(\))\.at\(", self.body()):
            start, opening = self.span(found)
            family = self.source.text[start:opening - 4]
            arguments = self.source.split(opening, self.source.match(opening - 1) - 1)
            buffer, source, *event = arguments
            if self.text(buffer) != "0":
                yield self.expression("slot-buffer", buffer, f"({self.text(buffer)}) ^ 1U")
                yield self.expression("slot-buffer", buffer, "0U")
            if self.text(source) != "Rank{0}":
                yield self.expression("slot-source", source, self.next_rank(source))
            for one in event:
                yield self.expression("slot-event", one, f"({self.text(one)} + 1) % {family}.events")
        for found in re.finditer(r"(?:map\(\)\.|region_->)(?:card|error|error_text)\(", self.body()):
            opening = self.span(found)[1]
            argument = (opening, self.source.match(opening - 1) - 1)
            yield self.expression("slot-buffer", argument, f"{self.text(argument)} ^ 1U")
            yield self.expression("slot-buffer", argument, "0U")
        for found in re.finditer(r"(?:magic_of|rounds_of)\(", self.body()):
            opening = self.span(found)[1]
            argument = (opening, self.source.match(opening - 1) - 1)
            if self.text(argument) != "Core{0}":
                yield self.expression("slot-core", argument, "::shmoe::Core{0}")

    def parity(self):
        for found in re.finditer(r"(?:\([^()]*\(\)[^()]*\)|[\w.]+(?:\(\))?) & 1\b", self.body()):
            yield self.expression("no-parity", self.span(found), "0U")
            yield self.expression("other-parity", self.span(found), f"({self.text(self.span(found))}) ^ 1U")
        for found in re.finditer(r"\bturn_ = (1 - turn_)", self.body()):
            start, end = self.span(found)
            yield self.expression("no-parity", (start + 8, end), "turn_")

    def words(self):
        """A word without its round, its phase or its error."""
        for found in re.finditer(r"(?:published_word|safe_word|flag_word)\(", self.body()):
            opening = self.span(found)[1]
            for argument in self.source.split(opening, self.source.match(opening - 1) - 1):
                round_ = self.text(argument) in ("round", "round_")
                yield self.expression("word", argument, "::shmoe::Round{0}" if round_ else "0U")
        for statement in self.plain:
            found = re.search(r"(?:= |return )([^|;]*[^|;\s]) \| ([^|;]+);",
                              self.source.masked[statement.start:statement.end])
            if found:
                whole = (statement.start + found.start(1), statement.start + found.end(2))
                yield self.expression("word", whole, found.group(1))
                yield self.expression("word", whole, f"::std::uint64_t{{{found.group(2)}}}")
        for found in re.finditer(r"launch_->sync_base", self.body()):
            yield self.expression("word", self.span(found), "0U")

    # Shares of the work

    def loops(self):
        for control in self.controls:
            head = re.compile(r"for \((?:const )?[\w:]+ (\w+)(?: = |\{)([^;]*?)\}?; (?:\1|\1\.value\(\)) < ([^;]+); ")
            found = head.match(self.source.masked, control.start)
            if not found:
                continue
            first, bound = self.spans(found, 2), self.spans(found, 3)
            ranks = re.match(r"for \((?:const )?Rank \w+ = ", found.group())
            one_more = "::shmoe::Rank{{({}).value() + 1}}" if ranks else "({}) + 1"
            one_less = "::shmoe::Rank{{({}).value() - 1}}" if ranks else "({}) - 1"
            yield self.expression("loop-first", first, one_more.format(self.text(first)))
            yield self.expression("loop-last", bound, one_less.format(self.text(bound)))

    def slices(self):
        for found in re.finditer(r"const Slice (\w+) = ([^;]+);", self.body()):
            span = self.spans(found, 2)
            text = self.text(span)
            yield self.expression("slice-first", span, f"::shmoe::mutated::without_first({text})")
            yield self.expression("slice-other", span, f"::shmoe::mutated::moved({text})")

    # Order

    def swaps(self):
        for statements in self.lists():
            for one, two in zip(statements, statements[1:]):
                if not (self.is_act(one) and self.is_act(two)) or self.text_of(one) == self.text_of(two):
                    continue
                swapped = f"{self.text_of(two)} {self.text_of(one)}"
                yield self.mutant("swap", [Piece(one.start, one.end, "guard"),
                                           Piece(two.start, two.end, "before", swapped)],
                                  swapped, f"{self.text_of(one)} {self.text_of(two)}")

    def text_of(self, statement):
        return self.text((statement.start, statement.end))

    def lists(self):
        yield self.function.body
        for statement in self.function.statements():
            if statement.kind == "block":
                yield statement.children

    def is_act(self, statement):
        if any(s.kind == "plain" and self.source.masked.startswith("return", s.start) for s in statement.walk()):
            return False
        starts = {s.start for s in statement.walk() if s.kind == "plain"}
        return any(call.start in starts for call in self.calls() if statement.start <= call.start < statement.end)

    # Where to

    def next_rank(self, span):
        return f"::shmoe::Rank{{(({self.text(span)}).value() + 1) % {self.me}ranks()}}"

    def ranks(self):
        """The neighbour in place of the rank that is meant."""
        for call in self.calls(["put", "get", "signal", "put_signal", "read", "set_flag", "wait_flag"]):
            if call.receiver == "fabric.":
                continue
            yield self.expression("rank", call.arguments[0], self.next_rank(call.arguments[0]))
            if call.name in ("set_flag", "wait_flag"):
                event = call.arguments[1]
                yield self.expression("event", event, f"({self.text(event)} + 1) % {self.me}slots().flag().events")
        for call in self.calls(["signal_each"]):
            ranks = self.text(call.arguments[0])
            yield self.expression("half", call.arguments[0],
                                  f"std::span<const ::shmoe::Rank>({ranks}).first(({ranks}).size() / 2)")

    def places(self):
        for call in self.calls(["put", "get", "read"]):
            yield self.expression("place", call.arguments[1], f"{self.text(call.arguments[1])} + ::shmoe::Bytes{{8}}")
        for found in re.finditer(r"place->row\b", self.body()):
            yield self.expression("place", self.span(found), "place->row + 1")

    def body(self):
        return self.source.masked[self.function.start:self.function.end]

    def span(self, found):
        return self.function.start + found.start(), self.function.start + found.end()

    def spans(self, found, group):
        at = self.function.start if found.string is not self.source.masked else 0
        return at + found.start(group), at + found.end(group)


def without_twins(mutants):
    """Two operators may find the same change."""
    seen = set()
    for mutant in mutants:
        twin = (mutant.source.path, *((p.start, p.end, p.kind, p.other, p.when) for p in mutant.pieces))
        if twin not in seen:
            seen.add(twin)
            yield mutant


def name_mutants(mutants):
    """Keys that stay the same when lines move: file, function, operator and a hash of the texts; the second of equals
    in a function is "...-2"."""
    seen = {}
    for mutant in mutants:
        digest = hashlib.sha256(f"{mutant.before}>{mutant.after}".encode()).hexdigest()[:8]
        key = f"{mutant.source.path}:{mutant.function.name}:{mutant.operator}:{digest}"
        seen[key] = seen.get(key, 0) + 1
        mutant.key = key if seen[key] == 1 else f"{key}-{seen[key]}"
