"""The main job as processes: exact on recorded and drawn routing, and clear when it cannot be."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import cli
from cli import ROUTING, run

STEPS = ("--steps", 2, "--warmup", 1)
SMALL = ("--hidden", 64, "--tokens", 16, *STEPS)


def small(*words):
    """The options of a small job; those in `words` instead of the usual ones."""
    usual = [SMALL[i:i + 2] for i in range(0, len(SMALL), 2)]
    return (*(word for pair in usual if pair[0] not in words for word in pair), *words)


SOAK_S = float(os.environ.get("SHMOE_SOAK_S", "60"))


class Job(cli.Case):
    def verified(self, *words, **options):
        done = run("moe", *words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: bit-exact", done.stdout)
        return done.stdout


@unittest.skipUnless(ROUTING.is_dir(), "no recorded routing here")
class Recorded(Job):
    def test_recorded_routing_on_eight_ranks(self):
        text = self.verified("--ranks", 8, "--routing", ROUTING / "law_layer8.txt", "--steps", 2, "--warmup", 0)
        self.assertIn("8 ranks of 1 core, started by shmoe, profile safe", text)
        self.assertIn("law_layer8.txt: 64 experts, top 6; bf16 rows of hidden 2048; weights from file", text)

    def test_any_number_of_ranks(self):
        for ranks in (1, 3, 7, 16):
            with self.subTest(ranks=ranks):
                self.verified("--ranks", ranks, "--routing", ROUTING / "law_layer8.txt", "--steps", 1, "--hidden", 128)

    def test_few_tokens(self):
        for ranks, tokens in ((1, 4), (3, 16), (8, 64)):
            with self.subTest(ranks=ranks):
                text = self.verified("--mode", "low-latency", "--ranks", ranks, "--routing", ROUTING / "law_layer8.txt",
                                     "--tokens", tokens, "--steps", 3, "--hidden", 128)
                self.assertIn("mode low-latency: ", text)
        files = f"{ROUTING / 'law_layer8.txt'},{ROUTING / 'law_layer13.txt'}"
        self.verified("--mode", "low-latency", "--ranks", 4, "--routing", files, "--steps", 4, "--hidden", 64)

    def test_two_layers_by_turns(self):
        files = f"{ROUTING / 'law_layer8.txt'},{ROUTING / 'law_layer13.txt'}"
        self.verified("--ranks", 4, "--routing", files, "--steps", 3, "--hidden", 64)


class Exact(Job):
    def test_dtypes_and_odd_rows(self):
        for dtype in ("bf16", "fp16", "fp32"):
            with self.subTest(dtype=dtype):
                self.verified("--ranks", 3, "--dtype", dtype, *STEPS, "--tokens", 16, "--hidden", 37)
                text = self.verified("--ranks", 3, "--dtype", dtype, "--quant", "int8", *STEPS, "--tokens", 16,
                                     "--hidden", 37)
                self.assertIn(f"{dtype} rows of hidden 37, sent as int8;", text)

    def test_several_cores(self):
        self.verified("--ranks", 3, "--cores", 3, *SMALL)

    def test_few_tokens(self):
        for words in (("--ranks", 1), ("--ranks", 2, "--tokens", 1), ("--ranks", 5, "--cores", 3, "--quant", "int8"),
                      ("--ranks", 3, "--dtype", "fp32"),
                      ("--ranks", 4, "--quant", "int8", "--dtype", "fp16", "--hidden", 37),
                      ("--ranks", 5, "--experts", 7, "--topk", 7), ("--ranks", 4, "--experts", 2, "--topk", 1),
                      ("--ranks", 4, "--tokens", 0)):
            with self.subTest(words=words):
                text = self.verified("--mode", "low-latency", *small(*words))
                heading = next(line.split() for line in text.splitlines() if line.split()[:2] == ["rank", "tokens"])
                self.assertEqual(heading[4:], ["dispatch", "experts", "combine", "dispatch", "combine"])
        for setting in ({"SHMOE_WEAK": "7"}, {"SHMOE_VIEWS": "off"}):
            self.verified("--mode", "low-latency", "--ranks", 3, *SMALL, env={**os.environ, **setting})

    def test_few_tokens_as_published(self):
        for profile in ("faithful-2026-07", "faithful-2026-08"):
            for words in ((), ("--quant", "int8"), ("--ranks", 5, "--experts", 7, "--topk", 7), ("--tokens", 0)):
                with self.subTest(profile=profile, words=words):
                    text = self.verified("--mode", "low-latency", "--profile", profile, "--cores", 1,
                                         *small("--steps", 20, *words))
                    self.assertIn(f"profile {profile}", text)
                    self.assertIn("as published: combine's flags lie over the rounds of barriers (S5)", text)

    def test_as_published_a_wrong_row_on_several_cores_is_told_with_the_way_out(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "late.faults"
            # So late that it never comes: whether a flag overtakes a row of another core is chance.
            file.write_text("rank 0 core 0 in dispatch_low_latency launch 1 put 9: drop\n")
            done = run("moe", "--mode", "low-latency", "--profile", "faithful-2026-07", "--cores", 2, "--ranks", 2,
                       "--faults", file, *SMALL)
        self.assert_one_message(done, "take --cores 1, or --profile safe: wrong result on rank")

    def test_few_tokens_where_some_ranks_have_none(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "few.jsonl"
            # Two steps on three ranks; the second needs more room than the first.
            file.write_text('{"topk_ids": [[1, 2]]}\n{"topk_ids": []}\n{"topk_ids": [[-1, -1]]}\n'
                            '{"topk_ids": []}\n{"topk_ids": [[3, 3], [0, -1], [2, 1]]}\n{"topk_ids": [[0, 1]]}\n')
            text = self.verified("--mode", "low-latency", "--ranks", 3, "--routing", file, "--experts", 4, "--hidden", 16,
                                 "--steps", 2, "--warmup", 0)
        cells = [line.split()[1:3] for line in text.splitlines() if line.split()[:1] in (["0"], ["1"], ["2"])]
        self.assertEqual(cells, [["1", "5"], ["3", "4"], ["2", "0"]])

    def test_rows_without_views_and_late_puts(self):
        self.verified("--ranks", 3, *SMALL, env={**os.environ, "SHMOE_VIEWS": "off"})
        self.verified("--ranks", 3, *SMALL, env={**os.environ, "SHMOE_WEAK": "7"})

    def test_offsets_beyond_32_bits(self):
        # The heap lies behind an ipc window of 5 GB that nobody touches, so that no memory is needed for it.
        self.verified("--ranks", 3, *SMALL, env={**os.environ, "SHMOE_BUFFSIZE": "5000"})

    def test_experts_that_do_not_divide(self):
        self.verified("--ranks", 5, "--experts", 7, "--topk", 7, *SMALL)
        self.verified("--ranks", 4, "--experts", 2, "--topk", 1, *SMALL)

    def test_ranks_without_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "few.jsonl"
            file.write_text('{"topk_ids": [[1, 2], [0, -1]]}\n{"topk_ids": []}\n{"topk_ids": [[-1, -1]]}\n')
            text = self.verified("--ranks", 3, "--routing", file, "--experts", 4, "--hidden", 16, "--steps", 1)
        tokens = [line.split()[1] for line in text.splitlines() if line.split()[:1] in (["0"], ["1"], ["2"])]
        self.assertEqual(tokens, ["2", "0", "1"])
        self.verified("--ranks", 2, *STEPS, "--hidden", 64, "--tokens", 0)

    def test_under_run(self):
        done = run("run", "-n", 3, "--", cli.SHMOE, "moe", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(all(line.startswith("[0] ") for line in done.stdout.splitlines()))
        self.assertIn("verified: bit-exact", done.stdout)
        done = run("run", "-n", 3, "--no-prefix", "--", cli.SHMOE, "moe", "--mode", "low-latency", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: bit-exact", done.stdout)


class Schema(cli.Case):
    def test_json_follows_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(cli.SCHEMA.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        done = run("moe", "--ranks", 3, "--json", *SMALL)
        report = json.loads(done.stdout)
        jsonschema.Draft202012Validator(schema).validate(report)
        self.assertTrue(report["verified"])
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1, 2])
        self.assertEqual([rank["tokens"] for rank in report["ranks"]], [32, 32, 32])
        self.assertEqual(sum(rank["rows_sent"] for rank in report["ranks"]),
                         sum(rank["rows_received"] for rank in report["ranks"]))
        self.assertEqual(report["world"]["launcher"], "shmoe")
        self.assertEqual(report["world"]["mode"], "normal")
        self.assertEqual((report["world"]["weak_seed"], report["world"]["views"]), (0, True))
        self.assertEqual((report["world"]["links"], report["world"]["faults"]), (None, None))
        done = run("moe", "--mode", "afd", "--ranks", 5, "--expert-ranks", 2, "--json", *SMALL)
        report = json.loads(done.stdout)
        jsonschema.Draft202012Validator(schema).validate(report)
        self.assertEqual((report["world"]["mode"], report["world"]["expert_ranks"]), ("afd", 2))
        self.assertEqual([rank["tokens"] for rank in report["ranks"]], [0, 0, 32, 32, 32])
        self.assertEqual([rank["rows_received"] for rank in report["ranks"]], [64, 32, 0, 0, 0])
        self.assertEqual(sorted(report["ranks"][0]["stages"]), ["a2e", "attention", "e2a", "experts"])
        done = run("moe", "--mode", "low-latency", "--ranks", 3, "--json", *SMALL)
        report = json.loads(done.stdout)
        jsonschema.Draft202012Validator(schema).validate(report)
        self.assertTrue(report["verified"])
        self.assertEqual(report["world"]["mode"], "low-latency")
        self.assertEqual([rank["tokens"] for rank in report["ranks"]], [32, 32, 32])
        self.assertEqual([rank["rows_sent"] for rank in report["ranks"]], [256, 256, 256])
        self.assertEqual(sum(rank["rows_received"] for rank in report["ranks"]), 768)
        self.assertEqual(sorted(report["ranks"][0]["stages"]), ["combine", "dispatch", "experts"])


class Report(cli.Case):
    def test_json_to_a_file_beside_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.json"
            done = run("moe", "--ranks", 2, *SMALL, "--json", file)
            self.assertIn("verified: bit-exact", done.stdout)
            self.assertTrue(json.loads(file.read_text())["verified"])


class Overrun(cli.Case):
    """The example of the README: the published barrier words overrun each other, the corrected ones do not."""

    def moe(self, profile, steps):
        return run("moe", "--ranks", 8, "--profile", profile, "--tokens", 0, "--hidden", 16, "--steps", steps)

    def test_the_published_protocol_gets_stuck_and_says_where(self):
        done = self.moe("faithful-2026-07", 3000)
        self.assertEqual(done.returncode, 86)
        self.assertEqual(done.stderr.count("shmoe moe: "), 1, done.stderr)
        self.assertRegex(done.stderr, r"shmoe moe: deadlock: dispatch_normal: overrun: rank \d core 0 looks for 0x\d+ in barrier")

    def test_the_corrected_protocol_does_not(self):
        done = self.moe("safe", 100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: bit-exact", done.stdout)


class Refused(cli.Case):
    def test_each_mistake_gives_one_message(self):
        mistakes = {
            ("--ranks", "0"): "--ranks",
            ("--bogus",): "--bogus",
            ("--hidden", "0"): "--hidden",
            ("--dtype", "int8"): "--dtype: int8 not in {bf16,fp16,fp32}",
            ("--quant", "int4"): "--quant: int4 not in {none,int8}",
            ("--mode", "fast"): "--mode: fast not in {normal,low-latency,afd}",
            ("--expert-ranks", "1"): "--expert-ranks is for --mode afd",
            ("--mode", "low-latency", "--expert-ranks", "1"): "in mode low-latency every rank holds experts",
            ("--mode", "low-latency", "--profile", "faithful-2026-07", "--ranks", "9", "--cores", "1"):
                "9 ranks in profile faithful-2026-07: the published layout status has room for 8 x 1 cores",
            ("--mode", "low-latency", "--hidden", "65536", "--tokens", "4096"): "lower --tokens, or raise SHMOE_HEAP",
            ("--mode", "afd", "--ranks", "2", "--expert-ranks", "2"): "2 expert ranks and 0 attention ranks",
            ("--mode", "afd", "--ranks", "2", "--expert-ranks", "0"): "--expert-ranks: Value 0 not in range",
            ("--mode", "afd", "--ranks", "1"): "--mode afd with 1 ranks: start more ranks, or give fewer --expert-ranks",
            ("--cores", "49"): "--cores",
            ("--profile", "fast"): "--profile",
            ("--seed", "-1"): "--seed: '-1' is not a number from 0 to 18446744073709551615",
            ("--seed", "18446744073709551616"): "--seed: '18446744073709551616'",
            ("--topk", "65"): "top 65 of 64 experts",
            ("--routing", "no/such/file"): "cannot read routing from no/such/file",
            ("--json", "/no/such/folder/report.json"): "cannot write",
            ("--routing", "/dev"): "/dev is not a regular file",
        }
        for words, part in mistakes.items():
            with self.subTest(words=words):
                self.assert_one_message(run("moe", *words), part)

    def test_where_ranks_cannot_meet_one_message_says_so(self):
        outside = {**os.environ, "SHMOE_COMM_ID": "10.0.0.1:9"}
        outside.pop("SHMOE_SECRET", None)
        for env, part in (({**os.environ, "SHMOE_COMM_ID": "nowhere"}, "SHMOE_COMM_ID is 'nowhere'"),
                          (outside, "set the same SHMOE_SECRET on every rank")):
            self.assert_one_message(run("moe", "--ranks", 7, env=env), part)

    def test_a_bad_file_names_its_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("1\t2\t\t1\t1\n1\tx\t\t1\t1\n")
            file.flush()
            done = run("moe", "--routing", file.name, "--topk", 2)
        self.assert_one_message(done, f"invalid argument: {file.name}:2: field 2 is 'x'")

    def test_a_rank_tells_what_it_alone_has_found(self):
        script = '[ "$SHMOE_RANK" != 2 ] || export SHMOE_CORES=many; exec "$0" moe --tokens 1 --hidden 16'
        done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\[2\] shmoe moe: .*SHMOE_CORES is 'many'")

    def test_options_that_differ_are_named_with_both_values(self):
        script = '[ "$SHMOE_RANK" != 2 ] || set -- "$@" {}; exec "$0" moe --tokens 1 --hidden 16 --profile {} "$@"'
        for words, profile, part in (
                ("--seed 7", "safe", "rank 2 has seed 7, rank 0 has seed 1: start every rank with the same --seed"),
                ("--steps 3", "faithful-2026-07", "rank 2 has steps 3, rank 0 has steps 20"),
                ("--warmup 0", "faithful-2026-08", "rank 2 has warmup 0, rank 0 has warmup 2"),
                ("--experts 8", "safe", "rank 2 has experts 8, rank 0 has experts 64"),
                ("--ranks 4", "safe", "rank 2 has ranks 4, rank 0 has ranks default")):
            with self.subTest(words=words):
                done = run("run", "-n", 3, "--", "bash", "-c", script.format(words, profile), cli.SHMOE)
                told = [line for line in done.stderr.splitlines() if "shmoe moe:" in line]
                self.assertEqual(len(told), 1, done.stderr)
                self.assertIn("mismatch: " + part, told[0])
                self.assertEqual(done.returncode, 1)

    def test_ranks_tell_once_what_all_found(self):
        for words, part in ((("--bogus",), "--bogus"), (("--routing", "nowhere"), "nowhere"),
                            (("--ranks", "4"), "--ranks is 4 but shmoe started 3 ranks")):
            with self.subTest(words=words):
                done = run("run", "-n", 3, "--", cli.SHMOE, "moe", *words)
                told = [line for line in done.stderr.splitlines() if "shmoe moe:" in line]
                self.assertEqual(len(told), 1, done.stderr)
                self.assertIn(part, told[0])
                self.assertNotEqual(done.returncode, 0)

    def test_files_that_differ_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for rank in range(3):
                os.mkdir(f"{folder}/{rank}")
                if rank != 1:
                    Path(f"{folder}/{rank}/routes").write_text(f'{{"topk_ids": [[{rank}]]}}\n')
            script = 'cd "$1/$SHMOE_RANK"; exec "$0" moe --tokens 1 --hidden 16 --routing routes'
            done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE, folder)
            self.assertIn("rank 1 has routing content not found: cannot read routing from routes", done.stderr)
            Path(f"{folder}/1/routes").write_text('{"topk_ids": [[0]]}\n')
            done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE, folder)
            self.assertRegex(done.stderr, "rank 2 has routing content [0-9a-f]{16}, rank 0 has routing content [0-9a-f]{16}")
            self.assertEqual(done.returncode, 1)

    def test_a_misspelt_setting_is_named_once(self):
        done = run("moe", "--ranks", 3, *SMALL, env={**os.environ, "SHMOE_CORE": "2"})
        self.assertEqual(done.returncode, 0, done.stderr)
        told = [line for line in done.stderr.splitlines() if "SHMOE_CORE" in line]
        self.assertEqual(told, ["[shmoe rank 0] warn: SHMOE_CORE is no setting: did you mean SHMOE_CORES?"])

    def test_too_few_open_files_say_how_to_have_more(self):
        done = run("moe", "--ranks", 3, *SMALL, preexec_fn=lambda: cli.limit_files(7, 7))
        self.assert_one_message(done, "3 ranks need 22 open files, but the hard limit is 7: raise it with `ulimit -n`")
        script = '[ "$SHMOE_RANK" != 2 ] || ulimit -n 7; exec "$0" moe --tokens 1 --hidden 16'
        done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("[2] shmoe moe: system: 3 ranks need 35 open files, but the hard limit is 7", done.stderr)

    def test_a_full_shm_is_one_message_whichever_rank_finds_it(self):
        small = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" "$@"']
        if subprocess.run([*small, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mounts of one's own here")
        done = subprocess.run([*small, cli.SHMOE, "moe", "--ranks", "8", "--steps", "1"], capture_output=True, text=True,
                              timeout=cli.LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("shmoe moe: "), 1, done.stderr)
        self.assertRegex(done.stderr, r"setting up failed on rank \d: /dev/shm is full: .* --shm-size")

    def test_a_heap_too_small_is_one_message(self):
        done = run("moe", "--ranks", 3, *SMALL, env={**os.environ, "SHMOE_HEAP": "64KiB", "SHMOE_BUFFSIZE": "0"})
        if done.returncode != 0:
            self.assert_one_message(done, "memory")
        done = run("moe", "--ranks", 3, "--hidden", 65536, "--tokens", 16, "--steps", 1,
                   env={**os.environ, "SHMOE_HEAP": "4MiB", "SHMOE_BUFFSIZE": "0"})
        self.assert_one_message(done, "memory")


class Lost(cli.Case):
    def test_a_killed_rank_is_named(self):
        words = ["moe", "--ranks", "4", "--hidden", "64", "--tokens", "16", "--steps", "1000000"]
        with subprocess.Popen([cli.SHMOE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launcher:
            launcher.stderr.readline()  # the first line of progress: the ranks are at work
            os.kill(_rank(launcher.pid, 2), signal.SIGKILL)
            _, err = launcher.communicate(timeout=cli.LIMIT_S)
        self.assertEqual(launcher.returncode, 128 + 9)
        self.assertIn("rank 2 was killed by signal 9 (SIGKILL)", err)
        told = [line for line in err.splitlines() if line.startswith("shmoe moe: ") and "was killed" not in line]
        self.assertLessEqual(len(told), 1, err)

    def test_ranks_die_with_the_launcher(self):
        words = ["moe", "--ranks", "3", "--hidden", "64", "--tokens", "16", "--steps", "1000000"]
        with subprocess.Popen([cli.SHMOE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launcher:
            launcher.stderr.readline()
            pids = [_rank(launcher.pid, rank) for rank in range(3)]
            launcher.kill()
            launcher.wait()
            cli.until(lambda: all(cli.is_gone(pid) for pid in pids), "the end of all ranks")


class Soak(cli.Case):
    """Nobody proves a deadlock of a job that goes on, however long its ranks are held up."""

    def test_healthy_jobs_with_ranks_that_stop_and_go_on(self):
        seed = int(os.environ.get("SHMOE_TEST_SEED", "1"))
        print(f"SHMOE_TEST_SEED={seed}")
        draw = random.Random(seed)
        end = time.monotonic() + SOAK_S
        while time.monotonic() < end:
            words = ["moe", "--ranks", "8", "--cores", "2", "--hidden", "16", "--tokens", "4", "--steps", "150"]
            with subprocess.Popen([cli.SHMOE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "SHMOE_LOG": "error"}) as launcher:
                launcher.stderr.readline()
                self.hold_up(launcher, draw)
                out, err = launcher.communicate(timeout=cli.LIMIT_S)
            self.assertEqual(launcher.returncode, 0, err)
            self.assertIn("verified: bit-exact", out)

    def hold_up(self, launcher, draw):
        """Stops a rank for 10 to 400 ms, another one, and so on, until the job is done."""
        while launcher.poll() is None:
            children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
            if not children:
                return
            pid = int(draw.choice(children))
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(draw.uniform(0.01, 0.4))
            except ProcessLookupError:
                continue
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            time.sleep(draw.uniform(0, 0.05))


def _rank(launcher, rank):
    """The process of a rank, found among the launcher's children by its environment."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    for pid in children:
        if f"SHMOE_RANK={rank}" in Path(f"/proc/{pid}/environ").read_text().split("\0"):
            return int(pid)
    raise AssertionError(f"rank {rank} is not among {children}")


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
class Mpirun(cli.Case):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def mpirun(self, ranks, *words, **environment):
        return subprocess.run(["mpirun", "--oversubscribe", "-np", str(ranks), cli.SHMOE, *map(str, words)],
                              capture_output=True, text=True, timeout=cli.LIMIT_S, env={**self.environment, **environment})

    def test_drawn_routing(self):
        done = self.mpirun(5, "moe", "--cores", 2, *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("5 ranks of 2 cores, started by openmpi", done.stdout)
        self.assertIn("verified: bit-exact", done.stdout)

    def test_attention_and_experts_apart_as_published(self):
        done = self.mpirun(3, "moe", "--mode", "afd", "--expert-ranks", 1, "--profile", "faithful-2026-08", "--cores", 4,
                           "--hidden", 1024, "--tokens", 16, *STEPS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: bit-exact", done.stdout)

    def test_inside_run(self):
        words = ("run", "-n", 2, "--", "mpirun", "--oversubscribe", "-np", 1, cli.SHMOE, "moe", *SMALL)
        done = run(*words, env=self.environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"rank 0 of 1 by openmpi .* runs inside rank [01] of 2 by shmoe run: use one")

    def test_a_bad_option_of_one_rank_is_told(self):
        words = ["-np", "1", cli.SHMOE, "moe", *map(str, SMALL)]
        done = subprocess.run(["mpirun", "--oversubscribe", *words, ":", *words, "--bogus"], capture_output=True, text=True,
                              timeout=cli.LIMIT_S, env=self.environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--bogus", done.stderr)

    def test_a_report_that_cannot_be_written_is_found_before_the_steps(self):
        done = self.mpirun(2, "moe", *SMALL[:4], "--steps", 1000000, "--json", "/no/such/folder/report.json")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot write /no/such/folder/report.json", done.stderr)

    def test_inside_run_with_the_same_ranks(self):
        done = run("run", "-n", 2, "--", "mpirun", "--oversubscribe", "-np", 2, cli.SHMOE, "moe", *SMALL,
                   env=self.environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("verified", done.stdout)

    def test_run_inside(self):
        done = self.mpirun(2, "run", "-n", 3, "--no-prefix", "--", cli.SHMOE, "moe", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("3 ranks of 1 core, started by shmoe"), 2)

    def test_another_number_of_ranks(self):
        done = self.mpirun(3, "moe", "--ranks", 4, *SMALL)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("shmoe moe:"), 1, done.stderr)
        self.assertIn("--ranks is 4 but openmpi started 3 ranks", done.stderr)

    def test_a_stuck_job_says_why_once_before_mpirun_ends_it(self):
        words = ("moe", "--profile", "faithful-2026-07", "--tokens", 0, "--hidden", 16, "--steps", 3000)
        for _ in range(3):
            done = self.mpirun(8, *words)
            self.assertEqual(done.returncode, 86)
            self.assertEqual(done.stderr.count("shmoe moe: "), 1, done.stderr)
            self.assertIn("deadlock: dispatch_normal: overrun: ", done.stderr)

    def test_a_bad_option_is_told_once_before_mpirun_ends_it(self):
        done = self.mpirun(4, "moe", "--bogus")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("shmoe moe: "), 1, done.stderr)


if __name__ == "__main__":
    cli.main()
