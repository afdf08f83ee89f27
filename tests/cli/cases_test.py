# SPDX-License-Identifier: Apache-2.0
"""cases_test.py FLASHINFER: `flashinfer check` and `flashinfer bench` as a user runs them."""
import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)


class CasesTest(unittest.TestCase):
    def test_check_counts_every_candidate(self):
        result = run("check", "norm", "gemm", "--device", "cpu", "--max-cases", "6", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["failures"], [])
        self.assertEqual({row["op"] for row in report["results"]}, {"norm", "gemm"})
        scalar = [row for row in report["results"] if row["candidate"] == "cpu.scalar"]
        self.assertEqual([row["failed"] for row in scalar], [0, 0])
        for row in report["results"]:
            self.assertLessEqual(row["passed"], 6)
            self.assertEqual(row["passed"] + sum(row["refused"].values()), row["cases"])
        self.assertTrue(all(row["passed"] > 0 for row in scalar))

    def test_check_takes_one_case_as_it_is_printed(self):
        case = ("norm kind=rms adds_residual=0 dtype=bf16 dtype_weight=bf16 dtype_out=bf16 "
                "num_rows=19 hidden_size=111")
        result = run("check", case, "--backend", "cpu.scalar")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[1].split()[:4], ["norm", "cpu.scalar", "1", "1"])

    def test_check_says_why_candidates_refuse(self):
        result = run("check", "batch_decode", "--device", "cpu", "--max-cases", "1", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        for row in json.loads(result.stdout)["results"]:
            self.assertEqual(row["passed"] + sum(row["refused"].values()), 1, row)

    def test_every_operator_is_listed(self):
        listed = set(run("check", "--list").stdout.split())
        known = set(run("explain", "nothing").stderr.split("operators: ")[1].strip().split(", "))
        self.assertEqual(listed, known)

    def test_wrong_words_are_named(self):
        for words, message in ((["nothing"], "'nothing' is no operator"),
                               (["norm", "kind=none"], "no case has all of these words"),
                               (["norm", "--device", "tpu"], "accepted: auto, cpu, cuda:N"),
                               (["--frobnicate"], "frobnicate")):
            result = run("check", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(message, result.stderr)

    def test_bench_measures_what_was_asked_for(self):
        words = ["norm", "num_rows=1 ", "--seconds", "0.01", "--threads", "1"]
        result = run("bench", *words, "--json", "--backend", "cpu.scalar")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([row["backend"] for row in rows], ["cpu.scalar"])
        self.assertGreater(rows[0]["us"], 0)
        self.assertIn("µs", run("bench", *words).stdout)
        cases = run("bench", "--list").stdout.splitlines()
        self.assertIn("norm", {case.split()[0] for case in cases})

    def test_nothing_measured_is_an_error(self):
        for words, code in ((["num_rows=1 ", "--backend", "nope"], 3), (["kind=none"], 2),
                            (["--seconds", "-1"], 2)):
            self.assertEqual(run("bench", "norm", *words).returncode, code, words)
        refused = run("check", "norm", "--max-cases", "0")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is 0, expected 1 or more", refused.stderr)

    def test_help_has_examples(self):
        for command in ("check", "bench"):
            self.assertIn(f"flashinfer {command} ", run(command, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
