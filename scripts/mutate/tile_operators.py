"""The mutation operators of the tile language: of its words, of the kernel that is written in them, and of the
arithmetic that says which task has which slot and which place."""

import re

from operators import LEFT_OUT, Operators, Piece

WORDS = "ops/tile/tile.hpp"
KERNEL_ACTS = ("wait", "fence", "notify", "store", "load", "quiet", "produce", "consume", "send", "receive",
               "each_task", "signal", "put", "get", "put_signal", "putmem_nbi", "putmem_signal_nbi", "test")
# Those that every rank and every core must make.
OF_ALL = ("wait", "fence", "notify", "each_task", "produce", "consume")

# Call -> argument -> what is put in its place.
ARGUMENTS = {
    "tile_.wait": {1: ["2"], 2: ["1 - ({0})", "({0}) + 2"]},
    "tile_.notify": {1: ["{next}"], 2: ["1 - ({0})", "({0}) + 2"]},
    "tile_.symm_at": {1: ["{next}"]},
    "signals_.at": {0: ["({0}) ^ 1", "0"], 1: ["{next}"], 2: ["(({0}) + 1) % signals_.family().events", "0"]},
    "tasks_.in_buffer": {0: ["({0}) ^ 1", "0"], 1: ["(({0}) + 1) % tasks_.ranks()"], 2: ["0"], 3: ["({0}) ^ 1"]},
    "in_x": {0: ["(({0}) + 1) % tasks_.ranks()"], 1: ["0"], 2: ["({0}) ^ 1"]},
    "in_y": {0: ["(({0}) + 1) % tasks_.ranks()"], 1: ["0"], 2: ["({0}) ^ 1"]},
    "context_->put_signal": {0: ["{next}"], 1: ["{0} + ::shmoe::Bytes{{8}}"], 3: ["{slot}"], 5: ["({0}) + 1"]},
    "context_->signal": {1: ["{slot}"]},
    "context_->wait": {0: ["{slot}"]},
}
# Function -> a part of its text -> what is put in its place.
TEXTS = {
    "ops/tile/all2all_tasks.hpp": {
        "buffer_of": [("block % tiling_.buffers", "block")],
        "blocks": [("ceil_div(shape_.rows, tiling_.block_rows)", "shape_.rows / tiling_.block_rows")],
        "rows_of": [("block * tiling_.block_rows", "block * tiling_.block_rows + 1")],
        "task": [("index / ranks_", "index"), ("index % ranks_", "0"), ("u % shape_.heads", "0"),
                 ("u / shape_.heads * tiling_.block_dim", "0"), ("first + tiling_.block_dim", "first + 1")],
        "first_task": [("worker", "worker + 1"), ("behind + workers", "behind"),
                       ("worker - buffer_of(block) * per_block()", "buffer_of(block) * per_block() - worker")],
        "in_buffer": [("buffer * tiling_.block_rows + row", "row"), ("rank", "0")],
        "worker": [("program.value() / 2", "program.value()")],
        "produces": [("program.value() % 2 == 0", "true"), ("program.value() % 2 == 0", "false")],
        "consumes": [("program.value() % 2 == 1", "true"), ("program.value() % 2 == 1", "false")],
        "workers": [("programs_ / 2", "programs_")],
    },
    "ops/tile/reverse_all2all.cpp": {
        "each_task": [("t += workers", "t += workers + 1")],
        "send": [("to + task.columns.first", "to"), ("from + task.columns.first", "from"),
                 ("size(task.columns.size())", "size(task.columns.size() - 1)")],
        "receive": [("from + task.columns.first", "from"), ("to + task.columns.first", "to"),
                    ("size(task.columns.size())", "size(task.columns.size() - 1)")],
        "row_of": [("block * args_.tiling.block_rows", "0")],
    },
    WORDS: {
        "wait": [("first.slot.value() + i", "first.slot.value()"), ("first.owner", "rank()"),
                 ("signalled_ && first.owner != rank()", "false"), ("i < count", "i + 1 < count")],
        "notify": [("signalled_ || r != rank()", "signalled_")],
        "putmem_signal_nbi": [("signalled_ || r != rank()", "signalled_")],
        "store": [("std::ranges::find(unfenced_, to.owner) == unfenced_.end()", "false")],
        "putmem": [("window_.resolve(window_.symm_at(to, r, site), site)", "window_.resolve(to, site)")],
        "wait_until_all": [("mask[i] != 0", "mask[i] == 0"), ("first.slot.value() + i", "first.slot.value()")],
        "wait_until_any": [("slots[found.index].value() - first.slot.value()", "found.index")],
        "fence": [("context_->fence(r, site)", "context_->fence(rank(), site)")],
    },
    "ops/tile/tile.cpp": {
        "condition": [("value + 1", "value"), ("value - 1", "value"), ("Compare::equal", "Compare::at_least"),
                      ("Compare::not_equal", "Compare::at_least"), ("Compare::at_most", "Compare::not_equal")],
        "included": [("mask[i] == 0", "mask[i] != 0"), ("first.value() + i", "first.value()")],
        "those_that_hold": [("i == seen || holds(slots[i], until, site)", "i == seen"),
                            ("slots[i].value() - first.value()", "i")],
    },
}


class TileOperators(Operators):
    def calls(self, names=KERNEL_ACTS):
        return [c for c in self.source.calls(self.function.start, self.function.end, names)
                if c.receiver in ("", "tile_.", "context_->")]

    def all(self):
        for operator in (self.left_out, self.weaker_quiet, self.loops, self.swaps, self.ranks, self.values,
                         self.arguments, self.texts):
            yield from operator()

    def conditions(self, name):
        yield "", ""
        if name in OF_ALL and self.source.path != WORDS:
            yield "-rank0", f"{self.me}rank() == ::shmoe::Rank{{0}}"
            yield "-core0", f"{self.me}core() == ::shmoe::Core{{0}}"

    def value_of(self, call):
        span, other = super().value_of(call)
        if self.source.path.endswith("reverse_all2all.cpp"):
            other = other.replace("{}, site", "{}, ::shmoe::SourceSite::here()")
        return span, other

    def left_out(self):
        for call in self.calls():
            statement = next((s for s in self.plain if s.start == call.start), None)
            for suffix, when in self.conditions(call.name):
                if statement and self.source.masked[call.end:statement.end] == ";":
                    yield self.mutant("remove" + suffix, [Piece(statement.start, statement.end, "guard", when=when)],
                                      f"nothing, where {when}" if when else "nothing")
                elif call.name in LEFT_OUT:
                    yield self.expression("remove" + suffix, *self.value_of(call), when)

    def weaker_quiet(self):
        for call in self.calls(["quiet"]):
            statement = next(s for s in self.plain if s.start == call.start)
            other = f"context_->fence({self.me}rank());"
            yield self.mutant("quiet-to-fence", [Piece(statement.start, statement.end, "before", other)], other)

    def arguments(self):
        for name, changes in ARGUMENTS.items():
            pattern = re.compile(r"(?<![\w.>])" + re.escape(name) + r"\(")
            for found in pattern.finditer(self.source.masked, self.function.start, self.function.end):
                given = self.source.split(found.end(), self.source.match(found.end() - 1) - 1)
                for index, others in changes.items():
                    if index >= len(given) or self.text(given[index]).startswith("{"):
                        continue
                    text = self.text(given[index])
                    for other in others:
                        yield self.expression(f"{name.split('.')[-1].split('>')[-1]}-argument", given[index], other.format(
                            text, next=self.next_rank(given[index]),
                            slot=f"::shmoe::Slot{{({text}).value() + 1}}"))

    def texts(self):
        for before, after in TEXTS.get(self.source.path, {}).get(self.function.name, []):
            for found in re.finditer(r"(?<![\w.])" + re.escape(before) + r"(?![\w(])", self.body()):
                yield self.expression("index", self.span(found), after)
