"""shmoe run, clean and info as processes."""

import fcntl
import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import cli
from cli import run

THROWS = os.environ.pop("SHMOE_TEST_THROWS", "")


class Output(cli.Case):
    def test_lines_carry_their_rank_and_never_mix(self):
        script = 'for i in $(seq 300); do printf "a%.0s" $(seq 50); echo " $i"; done; echo last >&2'
        done = run("run", "-n", 4, "--", "bash", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1200)
        for rank in range(4):
            own = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] {'a' * 50} {i}" for i in range(1, 301)])
        self.assertEqual(sorted(done.stderr.splitlines()), [f"[{rank}] last" for rank in range(4)])

    def test_a_last_line_without_a_break_gets_one(self):
        done = run("run", "-n", 2, "--", "printf", "no break")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] no break", "[1] no break"])

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            for words in (("run", "-n", 2, "--", "echo", "text"), ("moe", "-n", 2, "--hidden", 16, "--tokens", 1),
                          ("moe", "-n", 2, "--hidden", 16, "--tokens", 1, "--json"), ("info",)):
                done = subprocess.run([cli.SHMOE, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=cli.LIMIT_S)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stderr.count("standard output cannot be written"), 1, done.stderr)

    def test_a_closed_standard_output_is_an_error(self):
        done = subprocess.run(["sh", "-c", '"$0" run -n 2 -- echo text >&-', cli.SHMOE], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output cannot be written", done.stderr)

    def test_a_slow_reader_gets_everything(self):
        script = '"$0" run -n 2 --no-prefix -- sh -c "yes | head -c 200000" | (sleep 2; wc -c)'
        done = subprocess.run(["sh", "-c", script, cli.SHMOE], capture_output=True, text=True, timeout=cli.LIMIT_S)
        self.assertEqual(done.stdout.strip(), "400000", done.stderr)

    def test_without_prefix(self):
        done = run("run", "-n", 2, "--no-prefix", "--", "echo", "plain")
        self.assertEqual(done.stdout, "plain\nplain\n")

    def test_ranks_know_who_they_are(self):
        show = 'echo "$SHMOE_RANK $SHMOE_SIZE $SHMOE_LAUNCHER $SHMOE_CORES $COLOUR $SHMOE_JOB"'
        done = run("run", "-n", 3, "--cores", 2, "--env", "COLOUR=red", "--no-prefix", "bash", "-c", show)
        rows = sorted(line.split() for line in done.stdout.splitlines())
        self.assertEqual([row[:5] for row in rows], [[str(rank), "3", "shmoe", "2", "red"] for rank in range(3)])
        self.assertEqual(len({row[5] for row in rows}), 1)

    def test_ranks_do_not_see_the_launcher_outside(self):
        outside = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "5", "PMIX_RANK": "1", "SLURM_PROCID": "1"}
        done = run("run", "-n", 2, "--no-prefix", "--", "env", env={**os.environ, **outside})
        self.assertEqual([line for line in done.stdout.splitlines() if line.split("=")[0] in outside], [])

    def test_standard_input_is_empty(self):
        self.assertEqual(run("run", "-n", 2, "--", "cat", input="text").stdout, "")

    def test_many_ranks(self):
        done = run("run", "-n", 384, "--no-prefix", "--", "echo", "here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("here\n"), 384)

    def test_a_low_soft_limit_of_files_is_raised(self):
        done = run("run", "-n", 100, "--", "true", preexec_fn=lambda: cli.limit_files(64, 4096))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = run("run", "-n", 100, "--", "true", preexec_fn=lambda: cli.limit_files(64, 128))
        self.assert_one_message(done, "100 ranks need 216 open files", "hard limit is 128: raise it with `ulimit -n`")


class Ends(cli.Case):
    def test_the_first_failing_rank_gives_the_code(self):
        done = run("run", "-n", 4, "--", "bash", "-c", "exit $((SHMOE_RANK == 2 ? 7 : 0))")
        self.assertEqual(done.returncode, 7)
        self.assert_one_message(done, "shmoe run: rank 2 exited with code 7")

    def test_a_killed_rank_is_named_and_the_others_end(self):
        start = time.monotonic()
        done = run("run", "-n", 3, "--", "bash", "-c", "[ $SHMOE_RANK != 1 ] || kill -9 $$; exec sleep 60")
        self.assertEqual(done.returncode, 128 + 9)
        self.assert_one_message(done, "rank 1 was killed by signal 9 (SIGKILL)")
        self.assertLess(time.monotonic() - start, 15)

    def test_the_others_may_go_on(self):
        script = "[ $SHMOE_RANK != 1 ] || kill -9 $$; sleep 0.3; echo done; exit $((SHMOE_RANK == 2 ? ${1:-0} : 0))"
        for code, expected in ((0, 0), (4, 4)):
            done = run("run", "-n", 3, "--survive", "--no-prefix", "--", "bash", "-c", script, "bash", code)
            self.assertEqual((done.returncode, done.stdout), (expected, "done\ndone\n"))
            self.assertIn("shmoe run: rank 1 was killed by signal 9 (SIGKILL); the others go on\n", done.stderr)
        done = run("run", "-n", 2, "--survive", "--", "bash", "-c", "kill -9 $$")
        self.assertEqual(done.returncode, 128 + 9)

    def test_of_ranks_that_end_together_the_one_is_named_whose_end_tells_most(self):
        exited, killed = "exited with code {}", "was killed by signal 9 (SIGKILL)"
        for ends, rank, code in ((("exit 1", "exit 85"), 1, 85), (("exit 85", "exit 1"), 0, 85),
                                 (("exit 1", "exit 86"), 1, 86), (("exit 85", "kill -9 $$"), 1, 128 + 9)):
            with self.subTest(ends=ends), tempfile.TemporaryDirectory() as folder:
                go = Path(folder) / "go"
                script = f"echo $$; until [ -e {go} ]; do sleep 0.02; done; [ $SHMOE_RANK = 1 ] || {ends[0]}; {ends[1]}"
                with _started("-n", "2", "--no-prefix", "--", "bash", "-c", script) as launcher:
                    pids = [int(launcher.stdout.readline()) for _ in range(2)]
                    launcher.send_signal(signal.SIGSTOP)
                    cli.until(lambda: cli.state_of(launcher.pid) == "T", "the stop of the launcher")
                    go.touch()
                    cli.until(lambda: all(cli.is_gone(pid) for pid in pids), "the end of both ranks")
                    launcher.send_signal(signal.SIGCONT)
                    _, err = launcher.communicate(timeout=cli.LIMIT_S)
                self.assertEqual(launcher.returncode, code)
                self.assertEqual(err, f"shmoe run: rank {rank} {killed if code > 128 else exited.format(code)}\n")

    def test_a_lesson_whose_host_throws_tells_that_and_no_deadlock(self):
        if not THROWS:
            self.skipTest("SHMOE_TEST_THROWS is not set")
        done = run("run", "-n", 2, "--no-prefix", "--", THROWS)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.splitlines()[0],
                         "throwing_lesson: rank 1: system: the host threw: no such layer; catch it there, or return it as an error")
        self.assertNotIn("deadlock", done.stderr)

    def test_survivors_may_report_first(self):
        script = "[ $SHMOE_RANK != 1 ] || exit 3; sleep 0.5; echo my own error >&2; exit 4"
        done = run("run", "-n", 2, "--", "bash", "-c", script)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr, "[0] my own error\nshmoe run: rank 1 exited with code 3\n")

    def test_a_rank_that_ignores_being_told_is_killed(self):
        script = "[ $SHMOE_RANK != 1 ] || exit 3; trap '' TERM; while :; do sleep 1; done"
        start = time.monotonic()
        done = run("run", "-n", 2, "--", "bash", "-c", script)
        self.assertEqual(done.returncode, 3)
        self.assertIn("rank 0 did not end when told to; killed", done.stderr)
        self.assertLess(time.monotonic() - start, 20)

    def test_the_limit_names_who_still_ran(self):
        done = run("run", "-n", 3, "--timeout", 0.5, "--", "bash", "-c", "[ $SHMOE_RANK = 0 ] || exec sleep 60")
        self.assertEqual(done.returncode, 124)
        self.assert_one_message(done, "ranks 1, 2 ran longer than the limit of 0.5 s")

    def test_interrupt_and_terminate_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            script = 'trap "echo told; exit 0" INT TERM; echo $$; while :; do sleep 0.05; done'
            with _started("-n", "2", "--no-prefix", "--", "bash", "-c", script) as launcher:
                pids = [int(launcher.stdout.readline()) for _ in range(2)]
                launcher.send_signal(number)
                out, err = launcher.communicate(timeout=cli.LIMIT_S)
            self.assertEqual(launcher.returncode, 128 + number)
            self.assertEqual(out, "told\ntold\n")
            self.assertIn(f"told to end by signal {int(number)}", err)
            self.assertTrue(all(cli.state_of(pid) is None for pid in pids))

    def test_ends_are_seen_also_where_the_caller_ignores_those_of_its_children(self):
        done = run("run", "-n", 2, "--", "sh", "-c", "exit 5",
                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_nothing_outlives_a_killed_launcher(self):
        script = "echo $$; sleep 600 & echo $!; wait"
        with _started("-n", "3", "--no-prefix", "--", "bash", "-c", script) as launcher:
            pids = [int(launcher.stdout.readline()) for _ in range(6)]
            launcher.kill()
            launcher.wait()
            cli.until(lambda: all(cli.is_gone(pid) for pid in pids), "the end of ranks and what they started")

    def test_what_a_rank_left_running_ends_with_the_job(self):
        done = run("run", "-n", 2, "--no-prefix", "--", "bash", "-c", "sleep 600 & echo $!")
        self.assertEqual(done.returncode, 0)
        pids = [int(line) for line in done.stdout.split()]
        self.assertEqual(len(pids), 2)
        cli.until(lambda: all(cli.is_gone(pid) for pid in pids), "the end of what ranks had started")

    def test_a_rank_that_never_joins_is_named(self):
        start = time.monotonic()
        for absent in (1, 2):
            script = f'[ $SHMOE_RANK != {absent} ] || exit 0; exec "$0" moe --tokens 1 --hidden 16'
            done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"shmoe run: rank {absent} ended with code 0 before it joined the others", done.stderr)
        self.assertLess(time.monotonic() - start, 25)

    def test_a_rank_may_exit_early_with_success(self):
        done = run("run", "-n", 3, "--no-prefix", "--", "bash", "-c", "[ $SHMOE_RANK = 2 ] && exit 0; sleep 0.3; echo done")
        self.assertEqual((done.returncode, done.stdout), (0, "done\ndone\n"))


def _started(*words):
    return subprocess.Popen([cli.SHMOE, "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Words(cli.Case):
    def test_each_mistake_gives_one_message(self):
        mistakes = {
            ("mo",): "there is no command 'mo'",
            ("run", "-n", "2"): "no program given",
            ("run", "--", "true"): "--ranks is required: number of ranks",
            ("--ranks", "2"): "a command is missing, one of: moe, run,",
            ("rum", "-n", "2"): "there is no command 'rum'; did you mean run?",
            ("moe", "--ranks"): "--ranks: R is missing",
            ("run", "-np", "2", "--", "true"): "-np is mpirun's, here it is -n",
            ("run", "-n", "2", "--fault", "plan", "--", "true"): "--fault; did you mean --faults?",
            ("run", "-n", "2", "--", "./no-such-program"): "give its path as seen from this folder",
            ("run", "-n", "2", "--", "/"): "give a program and not a folder",
            ("run", "-n", "0", "--", "true"): "--ranks",
            ("run", "-n", "x", "--", "true"): "--ranks",
            ("run", "-n", "2", "--", "no-such-program"): "cannot run 'no-such-program': no folder of PATH has it",
            ("run", "-n", "2", "--env", "NOVALUE", "--", "true"): "--env 'NOVALUE' is not NAME=VALUE",
            ("run", "-n", "2", "--cores", "49", "--", "true"): "--cores",
            ("run", "-n", "2", "--timeout", "soon", "--", "true"): "--timeout",
            ("run", "-n", "2", "--timeout", "nan", "--", "true"): "'nan' is not a number from 0.001 to 1000000",
            ("run", "-n", "2", "--timeout", "inf", "--", "true"): "--timeout: 'inf'",
            ("run", "-n", "2", "--timeout", "-1", "--", "true"): "--timeout: '-1'",
            ("run", "-n", "2", "--ranks", "3", "--", "true"): "--ranks given twice",
            ("clean", "--all"): "--all",
            ("moe", "--step", "3"): "--step; did you mean --steps?",
            ("info", "--profile", "fast"): "--profile",
        }
        for words, part in mistakes.items():
            with self.subTest(words=words):
                self.assert_one_message(run(*words), part)

    def test_bad_settings_are_named(self):
        done = run("info", env={**os.environ, "SHMOE_CORES": "many"})
        self.assert_one_message(done, "SHMOE_CORES is 'many'; it takes 1 to 48")
        done = run("moe", env={**os.environ, "SHMOE_VERDICT": "/nonexistent/found.json"})
        self.assert_one_message(done, "SHMOE_VERDICT is '/nonexistent/found.json'; it takes a file that can be written")

    def test_help_teaches(self):
        for words in (("help",), ("help", "moe")):
            self.assertIn("  shmoe moe --ranks 8", run(*words).stdout)
            self.assertEqual(run(*words).returncode, 0)
        self.assertIn("  shmoe moe --ranks 8", run().stderr)
        self.assertEqual(run().returncode, 1)
        for words in ((), ("moe",), ("run",), ("clean",), ("info",)):
            done = run(*words, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("  shmoe ", done.stdout)
        self.assertIn("SHMOE_BOOTSTRAP_TIMEOUT_S", run("--help").stdout)
        self.assertIn("Usage: shmoe run [OPTIONS] -- PROGRAM [ARGS]\n", run("run", "--help").stdout)
        self.assertRegex(run("--version").stdout, r"^shmoe \d+\.\d+\.\d+\n$")


class Info(cli.Case):
    def test_layout_is_disjoint_and_the_published_one_is_not(self):
        self.assertIn("no two regions overlap", run("info", "--layout", "--ranks", 384, "--cores", 8).stdout)
        self.assertRegex(run("info", "--layout").stdout, r"low-latency region .*: slots and counts of the low-latency operators\n")
        self.assertIn("block of a communicator: 3 ranks", run("info", "--ranks", 3).stdout)
        published = run("info", "--layout", "--profile", "faithful-2026-07").stdout
        self.assertIn("overlaps low-latency region, as published", published)

    def test_json(self):
        info = json.loads(run("info", "--json", "--layout", "--ranks", 2, env={**os.environ, "SHMOE_SECRET": "xyz"}).stdout)
        self.assertEqual(info["launch"]["launcher"], "none")
        names = Counter(region["name"] for region in info["layout"]["regions"])
        self.assertEqual(max(names.values()), 1)
        self.assertEqual(info["settings"]["SHMOE_SECRET"]["value"], "(hidden)")
        self.assertGreaterEqual(info["machine"]["cpus_allowed"], 1)


class Clean(cli.Case):
    def object(self, name, content=b"x" * 4096):
        path = Path("/dev/shm") / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def until_this_clean(self, name, *words, says, leaves):
        """Until it is this clean, not that of a job beside, that meets an object of a dead owner."""

        def done():
            path = self.object(name)
            return says in run("clean", *words).stdout and path.exists() == leaves

        cli.until(done, f"'{says}'", limit_s=cli.LIMIT_S)

    def test_stale_is_removed_and_other_files_stay(self):
        name = f"shmoe.test-{os.getpid()}.0a0b.0.mem"
        other = self.object(f"not-shmoe.{os.getpid()}")
        self.until_this_clean(name, "--dry-run", says=f"would remove {name}\n", leaves=True)
        self.until_this_clean(name, says=f"removed {name}\n", leaves=False)
        self.assertTrue(other.exists())

    def test_names_of_others_do_nothing_to_a_terminal(self):
        self.object(f"shmoe.test-{os.getpid()}.\n\x1b[31mred").chmod(0o644)
        self.assertIn(f"skipped shmoe.test-{os.getpid()}.??[31mred: nothing that shmoe makes\n", run("clean").stdout)

    def test_meeting_files_count(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            secret = "0" * 32
            for job, pid in (("live", os.getpid()), ("dead", 2**22 + 1)):
                start = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
                file = Path(folder) / f"shmoe-{job}.meeting"
                file.touch(mode=0o600)
                file.write_text(f"shmoe-meeting 1\n9 {pid} {start} {secret}\n")
            done = run("clean", env={**os.environ, "XDG_RUNTIME_DIR": folder})
            self.assertIn(f"removed {folder}/shmoe-dead.meeting\n", done.stdout)
            self.assertIn(f"kept {folder}/shmoe-live.meeting: in use", done.stdout)
            self.assertRegex(done.stdout.splitlines()[-1], r"^[1-9]\d* removed, [1-9]\d* in use, ")

    def test_what_is_in_use_stays(self):
        path = self.object(f"shmoe.test-{os.getpid()}.0c0d.0.mem", b"")
        with path.open("r+b", buffering=0) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            held.write(b"x" * 4096)  # behind the lock, as an owner does it
            self.assertIn(f"kept {path.name}", run("clean").stdout)
            self.assertTrue(path.exists())
        run("clean")
        cli.until(lambda: not path.exists(), "the removal, by this clean or one beside it")

    def test_what_is_just_being_created_stays(self):
        path = self.object(f"shmoe.test-{os.getpid()}.0e0f.0.mem", b"")
        self.assertIn(f"kept {path.name}", run("clean").stdout)
        self.assertTrue(path.exists())


if __name__ == "__main__":
    cli.main()
