"""shmoe info --ops: the registered operators are those that the sources and the tables of their documents have."""

import json
import os
import re
import unittest
from pathlib import Path

import cli
from cli import run

SOURCE = Path(os.environ["SHMOE_TEST_SOURCE"])
SCHEMA = SOURCE / "apps/shmoe/operators.schema.json"
# A function of its arguments that every rank calls, or a half of one.
DECLARATION = re.compile(r"^Result<void> (\w+)\(runtime::Communicator& comm, (?:const )?(?:\w+Args|LowLatencyTables)& \w+", re.M)


def report(*words):
    done = run("info", "--ops", *words, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def documented():
    """The names of the table in ops/README.md; halves of an operator stand in brackets."""
    names = []
    for line in (SOURCE / "ops/README.md").read_text().split("\n\n## ")[0].splitlines():
        cell = re.match(r"\| (`.*?) \|", line)
        if cell:
            names += re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", cell.group(1)))
    return names


class Registered(cli.Case):
    def test_the_table_of_operators_names_exactly_these(self):
        registered = [entry["name"] for entry in report()["operators"]]
        self.assertEqual(sorted(registered), sorted(documented()))

    def test_every_public_operator_is_registered_with_its_header(self):
        declared = {}
        for header in sorted((SOURCE / "ops").rglob("*.hpp")):
            for name in DECLARATION.findall(header.read_text()):
                declared[name] = str(header.relative_to(SOURCE))
        registered = {call: entry["header"] for entry in report()["operators"] for call in entry["calls"]}
        self.assertEqual(registered, declared)

    def test_the_published_names(self):
        published = {name: entry["name"] for entry in report()["operators"] for name in entry["published"]}
        self.assertEqual(published, {
            "moe_dispatch_layout_zb": "layout", "moe_notify_dispatch_zb": "notify",
            "moe_dispatch_normal_zb": "dispatch_normal", "moe_combine_normal_zb": "combine_normal",
            "moe_dispatch_lowlatency_zb": "dispatch_low_latency", "moe_combine_lowlatency_zb": "combine_low_latency",
            "a2e": "a2e", "e2a": "e2a", "all_to_all_detour": "all_to_all_detour", "all2_all_detour": "all_to_all_detour",
            "reduce_scatter_detour": "reduce_scatter_detour"})


class Printed(cli.Case):
    def test_the_table_has_every_operator_and_fits_a_terminal(self):
        done = run("info", "--ops")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 120)
        first_words = [line.split()[0] for line in lines if line and not line.startswith(" ")]
        self.assertEqual(first_words[1:-3], [entry["name"] for entry in report()["operators"]])
        self.assertIn("hidden 1 to 268435456 (1024", done.stdout)

    def test_one_by_its_own_or_its_published_name(self):
        for name in ("dispatch_normal", "moe_dispatch_normal_zb"):
            done = run("info", "--ops", name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
            self.assertEqual(lines[0], "dispatch_normal: puts each token row to its final place on the rank that owns its expert")
            for line in ("published moe_dispatch_normal_zb", "calls dispatch_normal", "after: layout, notify",
                         "stages 1 enter: BarrierAll", "3 exit: BarrierAll", "hidden 1 to 268435456 1024 to 7168",
                         "with int8 rows:", "0 bytes symmetric on every rank, 28672 bytes of its own on each rank",
                         "a faithful profile enforces here what safe does"):
                self.assertIn(line, lines)

    def test_the_example_follows_ranks_and_cores(self):
        size = report("dispatch_low_latency", "--cores", 2)["operators"][0]["workspace"]
        self.assertEqual(size, {"symmetric": 0, "own": 2 * 256 * 4, "own_on": "each rank"})
        # 16 x 16 slots of a shard of 128 * 7168 / 16 bf16.
        size = report("all_to_all_detour", "--ranks", 16)["operators"][0]["workspace"]
        self.assertEqual(size, {"symmetric": 16 * 128 * 7168 * 2, "own": 0, "own_on": "each rank of the group"})

    def test_what_only_safe_does_has_a_mark(self):
        entries = report()["operators"]
        self.assertEqual({entry["name"]: entry["safe_alone"] for entry in entries if entry["safe_alone"]}, {
            "dispatch_low_latency": {"quant": ["int8 smoothed", "int8 with static_scale"],
                                     "active mask": ["[T]", "[T, K]"], "shared experts": ["on ranks of their own"]},
            "combine_low_latency": {"shared_expert_x": ["added"]},
            "a2e": {"rows": ["fp16", "fp32"], "quant": ["int8 with a scale a row"], "active mask": ["[B]"]},
            "e2a": {"rows": ["fp16", "fp32"], "answers": ["one for each k, summed"]},
            "all_to_all_detour": {"y": ["symmetric"]},
            "reduce_scatter_detour": {"elements": ["bf16", "fp32", "int32"], "x": ["symmetric"]}})
        for entry in entries:
            for of, choices in entry["safe_alone"].items():
                self.assertLess(set(choices), set(entry["variants"][of]))
        self.assertEqual([entry["name"] for entry in entries if entry["faithful_limits"]],
                         ["a2e", "e2a", "reduce_scatter_detour"])
        text = " ".join(run("info", "--ops", "a2e").stdout.split())
        for part in ("rows: bf16, fp16*, fp32* quant: none, int8 with a scale a row* gate",
                     "*: in safe alone, refused in a faithful profile", "bytes of its own on each attention rank",
                     "a faithful profile enforces here what the published host does"):
            self.assertIn(part, text)
        self.assertNotIn("*", run("info", "--ops", "layout").stdout)

    def test_mistakes(self):
        self.assert_one_message(run("info", "--ops", "broadcast"), "there is no operator 'broadcast'; there are: layout")


class Schema(cli.Case):
    def test_json_follows_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(SCHEMA.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        for words in ((), ("rotate",)):
            jsonschema.Draft202012Validator(schema).validate(report(*words))


if __name__ == "__main__":
    cli.main()
