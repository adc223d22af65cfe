"""Jobs of one user beside each other, and one inside another."""

import json
import os
import signal
import subprocess
import time
import unittest

import cli
import jobs
from cli import run
from jobs import SMALL, start

MOE = ("moe", "--ranks", 3, *SMALL, "--json")
MOMENTS = {
    "at once": lambda job, folder: True,
    "in the next second": lambda job, folder: time.time() % 1 < 0.1,
    "when it has ranks": lambda job, folder: jobs.ranks_of(job.pid),
    "when it listens": lambda job, folder: any(folder.glob("*.meeting")),
    "when it has objects": lambda job, folder: cli.segments(),
    "when it is at work": lambda job, folder: any(map(jobs.has_mapped, jobs.ranks_of(job.pid).values())),
    "when it ends": lambda job, folder: 0 < len(jobs.ranks_of(job.pid)) < 3,
    "when it is over": lambda job, folder: job.poll() is not None,
}


def received(report):
    return [rank["rows_received"] for rank in report["ranks"]]


class Beside(jobs.Case):
    """The second starts at a moment of the life of the first, while `shmoe clean` runs all the time."""

    def check_pair(self, words, before=()):
        for moment, has_come in MOMENTS.items():
            with self.subTest(moment=moment), jobs.Cleaner(self.env) as cleaner:
                first = start(*words, before=before, env=self.env)
                cli.until(lambda: has_come(first, self.folder) or first.poll() is not None, moment)
                second = start(*words, before=before, env=self.env)
                ranks = [received(self.verifies(job, 3)) for job in (first, second)]
                self.assertEqual(ranks[0], ranks[1])
            if jobs.ALONE == "yes":
                self.assertEqual(cleaner.removed, [])
            self.assertGreater(cleaner.rounds, 0)
        self.assertEqual(list(self.folder.iterdir()), [])



class One_user(Beside):
    def test_eight_moments_of_shmoe_moe(self):
        self.check_pair((*MOE, "--steps", 50))

    def test_eight_moments_of_shmoe_run(self):
        self.check_pair(("run", "-n", 3, "--no-prefix", "--", cli.SHMOE, "moe", *SMALL, "--json", "--steps", 50))

    def test_both_are_listed_and_clean_touches_neither(self):
        launchers = [start(*MOE, "--steps", 1000000, env=self.env) for _ in range(2)]

        def listed():
            report = json.loads(run("inspect", "--json", env=self.env).stdout or "{}")
            return {launcher.pid: job["pids"] for job in report.get("jobs", []) for launcher in launchers
                    if job["name"].startswith(f"shmoe_{launcher.pid}_")}

        cli.until(lambda: sorted(map(len, listed().values())) == [3, 3], "both jobs in the list")
        self.assertEqual(listed(), {job.pid: [pid for _, pid in sorted(jobs.ranks_of(job.pid).items())] for job in launchers})
        if jobs.ALONE == "yes":
            self.assertEqual(run("clean", env=self.env).stdout, "0 removed, 0 in use, 0 of other users, 0 not made by shmoe\n")
        for job in launchers:
            self.assertIsNone(job.poll())
            job.terminate()
            job.communicate(timeout=cli.LIMIT_S)
            self.assertEqual(job.returncode, 128 + signal.SIGTERM)


class Same_name(jobs.Case):
    """Whoever takes the variables of another job is told; the first one goes on."""

    def rank(self, rank, size=2, **more):
        settings = {"SHMOE_RANK": str(rank), "SHMOE_SIZE": str(size), "SHMOE_BOOTSTRAP_TIMEOUT_S": "30", **more}
        return start("moe", *SMALL, "--json", env={**self.env, **settings})

    def test_a_second_rank_0(self):
        for more, said in (({}, "unnamed.meeting belongs to rank 0 of another job"),
                           ({"SHMOE_JOB": "mine"}, "mine.meeting belongs to rank 0 of another job")):
            with self.subTest(more=more):
                first = self.rank(0, **more)
                cli.until(lambda: any(self.folder.glob("shmoe-*.meeting")), "the first rank 0")
                second = self.rank(0, **more)
                _, err = second.communicate(timeout=cli.LIMIT_S)
                self.assertEqual(second.returncode, 1)
                self.assertIn(said, err)
                self.assertIn(f"process {first.pid}, which is alive: give each job its own SHMOE_JOB", err)
                other = self.rank(1, **more)
                self.verifies(first, 2)
                self.assertEqual(other.wait(timeout=cli.LIMIT_S), 0)
                other.communicate()

    def test_a_rank_that_comes_too_late_is_told_what_makes_it_one(self):
        late = self.rank(1, SHMOE_BOOTSTRAP_TIMEOUT_S="1")
        _, err = late.communicate(timeout=cli.LIMIT_S)
        self.assertEqual(late.returncode, 1)
        self.assertIn("rank 1 did not reach rank 0 within 1 s: ", err)
        self.assertIn("; this is rank 1 of 2 because of SHMOE_RANK, SHMOE_SIZE: inside another job, start one of its own by "
                      "`shmoe run -n N -- PROGRAM`", err)


class Inside(jobs.Case):
    """A rank starts a job."""

    INNER = '"$0" run -n 2 --no-prefix -- "$0" moe --hidden 16 --tokens 4 --steps 3'
    VERIFIED = "verified: bit-exact, every row and token of 5 steps on 2 ranks"
    ONLY_1 = '[ "$SHMOE_RANK" != 1 ] || exec '

    def test_shmoe_run_starts_a_job_of_its_own(self):
        for script, jobs_inside in ((f"exec {self.INNER}", 3), (self.ONLY_1 + self.INNER, 1)):
            done = run("run", "-n", 3, "--no-prefix", "--", "bash", "-c", script, cli.SHMOE, env=self.env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count(self.VERIFIED), jobs_inside)

    def test_it_runs_inside_a_rank_that_is_at_work(self):
        """The ranks of both jobs live at the same time."""
        script = f'"$0" moe --hidden 16 --tokens 4 --steps 200 & {self.INNER} && wait'
        done = run("run", "-n", 2, "--no-prefix", "--", "bash", "-c", script, cli.SHMOE, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(self.VERIFIED), 2)
        self.assertEqual(done.stdout.count("verified: bit-exact, every row and token of 202 steps on 2 ranks"), 1)

    def test_shmoe_moe_is_a_rank_of_the_job_outside(self):
        words = '"$0" moe --hidden 16 --tokens 4 --ranks 2'
        done = run("run", "-n", 3, "--", "bash", "-c", f"exec {words}", cli.SHMOE, env=self.env)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--ranks is 2 but shmoe started 3 ranks (SHMOE_RANK, SHMOE_SIZE): leave --ranks out, or start a job of "
                      "its own by `shmoe run -n 2 -- shmoe moe`", done.stderr)
        done = run("run", "-n", 3, "--", "bash", "-c", self.ONLY_1 + words, cli.SHMOE,
                   env={**self.env, "SHMOE_BOOTSTRAP_TIMEOUT_S": "1"})
        self.assertIn("this is rank 1 of 3 because of SHMOE_RANK, SHMOE_SIZE: inside another job", done.stderr)

    def test_a_failure_inside_fails_the_job_outside(self):
        inner = '"$0" run -n 2 -- bash -c \'exit $((SHMOE_RANK * 7))\''
        done = run("run", "-n", 2, "--", "bash", "-c", self.ONLY_1 + inner, cli.SHMOE, env=self.env)
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stderr, "[1] shmoe run: rank 1 exited with code 7\nshmoe run: rank 1 exited with code 7\n")

    def test_all_of_both_ends_with_the_launcher_outside(self):
        inner = 'exec "$0" run -n 2 -- bash -c \'echo $$; sleep 600 & echo $!; wait\''
        launcher = start("run", "-n", 2, "--", "bash", "-c", inner, cli.SHMOE, env=self.env)
        pids = [int(launcher.stdout.readline().split()[-1]) for _ in range(8)]
        launcher.kill()
        launcher.communicate(timeout=cli.LIMIT_S)
        cli.until(lambda: all(cli.is_gone(pid) for pid in pids), "the end of the job inside")


@unittest.skipUnless(jobs.MPIRUN, "mpirun is not installed")
class Mpirun(Beside):
    def before(self, ranks):
        return (jobs.MPIRUN, "--oversubscribe", "-np", ranks)

    def setUp(self):
        super().setUp()
        self.env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def test_eight_moments(self):
        self.check_pair(("moe", *SMALL, "--json", "--steps", 50), self.before(3))

    def test_four_side_by_side(self):
        launchers = [start("moe", *SMALL, "--json", "--steps", 50, before=self.before(3), env=self.env) for _ in range(3)]
        launchers.append(start(*MOE, "--steps", 50, env=self.env))
        reports = [received(self.verifies(job, 3)) for job in launchers]
        self.assertEqual([report == reports[0] for report in reports], [True] * 4)

    def bash(self, script, ranks=3, **more):
        words = [*map(str, self.before(ranks)), "bash", "-c", script, cli.SHMOE]
        return subprocess.run(words, capture_output=True, text=True, timeout=cli.LIMIT_S, env={**self.env, **more})

    def test_shmoe_run_inside_starts_a_job_of_its_own(self):
        done = self.bash(f"exec {Inside.INNER}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(Inside.VERIFIED), 3)

    def test_shmoe_moe_inside_is_a_rank(self):
        done = self.bash('exec "$0" moe --hidden 16 --tokens 4 --ranks 2')
        self.assertIn("--ranks is 2 but openmpi started 3 ranks (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE): leave --ranks "
                      "out, or start a job of its own by `shmoe run -n 2 -- shmoe moe`", done.stderr)
        done = self.bash('[ "$OMPI_COMM_WORLD_RANK" != 1 ] || exec "$0" moe --ranks 2', SHMOE_BOOTSTRAP_TIMEOUT_S="1")
        self.assertIn("this is rank 1 of 3 because of OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE: inside another", done.stderr)

    def test_mpirun_inside_shmoe_run_is_refused(self):
        inner = f'[ "$SHMOE_RANK" != 1 ] || exec {" ".join(map(str, self.before(2)))} "$0" moe --tokens 1'
        done = run("run", "-n", 2, "--", "bash", "-c", inner, cli.SHMOE, env=self.env)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("by openmpi (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) runs inside rank 1 of 2 by shmoe run: use one "
                      "launcher, or unset SHMOE_RANK, SHMOE_SIZE and SHMOE_JOB to follow openmpi", done.stderr)


if __name__ == "__main__":
    jobs.alone()
    cli.main()
