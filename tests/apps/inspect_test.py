"""shmoe inspect and shmoe diagnose beside running jobs."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import cli
from cli import run

JOB = ("moe", "--ranks", 4, "--cores", 2, "--hidden", 64, "--tokens", 16)
INSPECT_SCHEMA = Path(os.environ.get("SHMOE_TEST_INSPECT_SCHEMA", "/nonexistent"))
DIAGNOSE_SCHEMA = Path(os.environ.get("SHMOE_TEST_DIAGNOSE_SCHEMA", "/nonexistent"))


@contextlib.contextmanager
def running(*words):
    """A job at work, and the pids of its ranks; what has not ended by itself is ended."""
    with subprocess.Popen([cli.SHMOE, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as launcher:
        try:
            launcher.stderr.readline()  # the first line of progress
            yield launcher, pids_of(launcher)
        finally:
            launcher.kill()


def pids_of(launcher):
    """By rank."""
    pids = {}
    for pid in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
        for entry in Path(f"/proc/{pid}/environ").read_text().split("\0"):
            if entry.startswith("SHMOE_RANK="):
                pids[int(entry.split("=")[1])] = int(pid)
    return [pids[rank] for rank in sorted(pids)]


@contextlib.contextmanager
def stopped(*pids):
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        threads = [task.name for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
        cli.until(lambda: all(cli.state_of(thread) == "T" for thread in threads), "the stop of all threads")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def look(pid, *words):
    done = run("inspect", pid, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(report):
    """What does not depend on time."""
    return [(rank["rank"], rank["tokens"], rank["rows_sent"], rank["rows_received"]) for rank in report["ranks"]]


class Watched(cli.Case):
    def test_the_ranks_are_called_shmoe_in_ps_and_top(self):
        with running(*JOB, "--steps", 100000) as (_, pids):
            names = [Path(f"/proc/{pid}/task/{thread.name}/comm").read_text() for pid in pids
                     for thread in Path(f"/proc/{pid}/task").iterdir()]
            self.assertEqual(set(names), {"shmoe\n"})

    def test_a_stopped_rank_is_the_one_that_all_wait_for(self):
        words = (*JOB, "--steps", 2000, "--json")
        undisturbed = json.loads(run(*words).stdout)
        with running(*words) as (launcher, pids):
            with stopped(pids[2]):
                def straggles():
                    return look(pids[0])["communicators"][0]["condition"] == "stopped"

                cli.until(straggles, "the wait for the stopped rank")
                seen = look(pids[1])
                communicator = seen["communicators"][0]
                self.assertEqual(communicator["rank"], 2)
                self.assertEqual(communicator["root"], {"rank": 2, "behind": [0, 1, 3]})
                self.assertIn("no deadlock: ranks 0-1, 3 wait for rank 2", communicator["text"])
                self.assertIn(f"its process {pids[2]} is stopped (T): `kill -CONT {pids[2]}` lets it go on", communicator["text"])
                self.assertEqual([process["pid"] for process in seen["processes"]], pids)
                self.assertEqual(seen["processes"][2]["state"], "T")
                self.assertNotEqual(seen["processes"][1]["state"], "T")
                self.assertEqual((seen["job"]["ranks"], seen["job"]["cores"], seen["job"]["profile"]), (4, 2, "safe"))
                waiting = [core for core in communicator["cores"] if core["rank"] != 2 and core["wait"]]
                self.assertTrue(any(core["wait"].get("writers") == [2] for core in waiting), waiting)
                text = run("inspect", pids[0], "--once").stdout
                self.assertIn("wait graph, from its root: rank 2\n", text)
                self.assertIn(f"rank 2 pid {pids[2]} is stopped (T)", text)

                done = run("diagnose", pids[3])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("no deadlock: ", done.stdout)
                self.assertIn("for rank 2, the longest for", done.stdout)
            for _ in range(5):
                look(pids[0], "--events", 100, "--slots", "flag")
            out, err = launcher.communicate(timeout=cli.LIMIT_S)
        self.assertEqual(launcher.returncode, 0, err)
        report = json.loads(out)
        self.assertTrue(report["verified"])
        self.assertEqual(rows(report), rows(undisturbed))

    def test_slots_and_events(self):
        with running(*JOB, "--steps", 1000000) as (_, pids), stopped(*pids):
            seen = look(pids[0], "--slots", "barrier", "--events", 200)
            slots = seen["communicators"][0]["slots"]
            self.assertEqual((slots["family"], slots["buffers"], slots["sources"], slots["events"]), ("barrier", 2, 4, 1))
            self.assertEqual([len(row) for row in slots["words"]], [8] * 4)
            self.assertTrue(any(int(word, 16) > 0 for row in slots["words"] for word in row))
            times = [event["time_ns"] for event in seen["events"]]
            self.assertEqual((len(times), times), (200, sorted(times)))
            self.assertTrue({"enter", "leave", "set", "quiet"} <= {event["kind"] for event in seen["events"]})
            for heap in seen["communicators"][0]["heaps"]:
                self.assertEqual(heap["used"] > 0, heap["blocks"] > 0)
            text = run("inspect", pids[0], "--slots", "barrier", "--events", 3).stdout
            self.assertIn("slots of barrier: of each rank 2 x 4 x 1 (buffer, source, event)\n", text)
            self.assertIn("events, the newest last", text)
            done = run("inspect", pids[0], "--slots", "none_such")
            self.assert_one_message(done, "--slots none_such: the job has barrier, flag, sync_all, abort")

    def test_looking_writes_nothing(self):
        with running(*JOB, "--steps", 1000000) as (_, pids), stopped(*pids):
            before = contents(pids)
            for words in (("--json",), ("--slots", "flag", "--events", "500"), ("--once",)):
                self.assertEqual(run("inspect", pids[0], *words).returncode, 0)
            self.assertEqual(contents(pids), before)

    def test_a_saved_job_shows_what_was_to_be_seen(self):
        with tempfile.TemporaryDirectory() as folder, running(*JOB, "--steps", 1000000) as (_, pids):
            saved = Path(folder) / "stuck.job"
            choice = ("--slots", "flag", "--events", 50)
            with stopped(*pids):
                self.assertEqual(run("inspect", pids[0], "--save", saved).returncode, 0)
                live = look(pids[0], *choice)
            again = look(saved, *choice)
            self.assertEqual(again["events"], live["events"])
            self.assertEqual(again["processes"], live["processes"])
            self.assertEqual(without_times(again["communicators"]), without_times(live["communicators"]))
            copy = saved.with_name("copy.job")
            self.assert_one_message(run("inspect", saved, "--save", copy), f"{saved} is saved already, --save is for a running job")
            self.assertFalse(copy.exists())
            saved.write_bytes(saved.read_bytes()[:6000])
            self.assertEqual(run("inspect", saved).returncode, 1)
            saved.write_text("something else")
            self.assert_one_message(run("inspect", saved), "is no saved job; `shmoe inspect JOB --save FILE` makes one")

    def test_whatever_is_called_a_saved_job_is_not_read_into_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            huge = Path(folder) / "huge.job"
            for start in ("", "shmoe saved job 0\n"):
                huge.write_text(start)
                os.truncate(huge, 1 << 30)
                with subprocess.Popen([cli.SHMOE, "inspect", str(huge)], stderr=subprocess.PIPE, text=True) as look:
                    said = look.stderr.read()
                    _, status, used = os.wait4(look.pid, 0)
                    look.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(look.returncode, 1)
                self.assertIn("says 'shmoe saved job 0', expected version" if start else "is no saved job", said)
                self.assertLess(used.ru_maxrss, 512 << 10)  # KiB

    def test_a_job_that_proves_nothing_itself_is_proven_stuck(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan"
            plan.write_text("rank 1 in dispatch_normal launch 2 signal 2 barrier: drop\n")
            words = [cli.SHMOE, "moe", "--ranks", "3", "--hidden", "16", "--tokens", "4", "--faults", str(plan)]
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "SHMOE_PROVE": "off"}) as launcher:
                try:
                    cli.until(lambda: len(pids_of(launcher)) == 3, "the start of all ranks")
                    pids = pids_of(launcher)
                    cli.until(lambda: run("diagnose", pids[0]).returncode == 86, "the proof")
                    text = run("diagnose", pids[1]).stdout
                    report = json.loads(run("diagnose", pids[2], "--json").stdout)
                finally:
                    launcher.kill()
        self.assertTrue(report["deadlock"])
        (found,) = report["communicators"]
        self.assertEqual(found["condition"], "deadlock cycle")
        self.assertIn(f"  cause: {found['causes'][0]['cause']}: ", text)
        self.assertEqual({wait["rank"] for wait in found["stuck"]}, {0, 1, 2})

    def test_two_jobs_side_by_side(self):
        with running(*JOB, "--steps", 1000000) as (_, left), running("moe", "-n", 2, "--hidden", 16, "--tokens", 4,
                                                                     "--steps", 1000000) as (_, right):
            names = {}
            for pids in (left, right):
                seen = look(pids[0])
                self.assertEqual([process["pid"] for process in seen["processes"]], pids)
                names[seen["job"]["name"]] = pids
            self.assertEqual(len(names), 2)
            listed = {job["name"]: sorted(job["pids"]) for job in json.loads(run("inspect", "--json").stdout)["jobs"]}
            for name, pids in names.items():
                self.assertEqual(listed[name], sorted(pids))
                self.assertEqual([process["pid"] for process in look(name)["processes"]], pids)
            self.assertIn(": name one\n", run("inspect").stdout)
            self.assertEqual(run("diagnose").returncode, 1)

    def test_a_rank_that_has_ended_is_shown_as_such(self):
        with running("run", "-n", 2, "--", cli.SHMOE, "moe", "--hidden", 16, "--tokens", 4, "--steps", 1000000) as (_, pids):
            os.kill(pids[1], signal.SIGSTOP)
            os.kill(pids[0], signal.SIGSTOP)
            os.kill(pids[1], signal.SIGKILL)
            cli.until(lambda: cli.is_gone(pids[1]), "the end of rank 1")
            seen = look(pids[0])
            self.assertEqual(seen["processes"][1]["text"], "has ended")
            self.assertEqual(seen["communicators"][0]["ranks"][1]["standing"], "ended")


def without_times(communicators):
    for communicator in communicators:
        del communicator["text"]
        for core in communicator["cores"]:
            if core["wait"]:
                del core["wait"]["for_s"]
    return communicators


def contents(pids):
    """A digest of what the ranks share: header, records and flags."""
    digests = []
    for pid in pids:
        for link in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
            target = os.readlink(link)
            if not target.startswith("/dev/shm/shmoe."):
                continue
            with open(link, "rb") as file:
                digests.append((target, os.fstat(file.fileno()).st_blocks, hashlib.sha256(file.read(4 << 20)).hexdigest()))
    assert len(digests) == 2 * len(pids)
    return digests


class Refused(cli.Case):
    def test_a_job_that_is_not_there(self):
        for command in ("inspect", "diagnose"):
            done = run(command, "no_such_job")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(f"shmoe {command}: not found: no job is named 'no_such_job', and no rank has this pid", done.stderr)


class Schema(cli.Case):
    def test_json_follows_the_schemas(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        validators = []
        for path in (INSPECT_SCHEMA, DIAGNOSE_SCHEMA):
            schema = json.loads(path.read_text())
            jsonschema.Draft202012Validator.check_schema(schema)
            validators.append(jsonschema.Draft202012Validator(schema))
        with running(*JOB, "--steps", 1000000) as (_, pids), running(*JOB, "--steps", 1000000):
            for words in ((), ("--events", "300"), ("--slots", "sync_all")):
                validators[0].validate(look(pids[0], *words))
            validators[0].validate(json.loads(run("inspect", "--json").stdout))
            done = run("diagnose", pids[0], "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            validators[1].validate(report)
            self.assertFalse(report["deadlock"])


if __name__ == "__main__":
    cli.main()
