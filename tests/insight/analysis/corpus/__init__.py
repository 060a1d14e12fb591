"""Programs for the comparison of `nx.explain` with the compiled program (tests/insight/analysis/test_truth.py), none of them an example of ours."""
