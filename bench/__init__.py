"""What the Postgres store costs, in figures that a noisy machine cannot blur: counts, and ratios within one run.

    python -m bench [--quick] [--only NAME] [--json]

Round trips, buffers, HOT updates and deadlocks are counted by the wire and by the server, threads by the kernel. Rates
are ratios between neighbours in interleaved rounds, never seconds. Each run adds one line to `bench/results.jsonl`; the
exit code is 0 when every target holds, 1 when one does not.
"""
