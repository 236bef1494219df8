"""Rows that were typed from the papers' tables agree with themselves in the columns that predictions use."""

import math

from predict_rows import kernels, read


def check_sum(row, parts, total, slack):
    found = math.fsum(float(row[part]) for part in parts)
    assert abs(found - float(row[total])) <= slack, f"{row}: {' + '.join(parts)} is {found}, not {total}"


def test_typed_rows_agree_with_themselves() -> None:
    parts = ("transforms", "packing", "row_exchange", "column_exchange", "other")
    for row in read("gests_steps.csv"):
        # The paper prints 6.57 s in row 5 of Table 6, where its own parts make 6.65 s.
        check_sum(row, parts, "total", 0.081 if (row["table"], row["row"]) == ("6", "5") else 0.031)
        assert int(row["p_r"]) * int(row["p_c"]) == 8 * int(row["nodes"]), row
    for row in read("gests_exchanges.csv"):
        n, p_r, p_c, q = (int(row[key]) for key in ("n", "p_r", "p_c", "q"))
        ranks = p_c if row["exchange"] == "column" else p_r
        message = q * 4 * n**3 / (p_r * p_c) / ranks  # Eq. 13
        assert message / 2**20 == float(row["message_mib"]), row
        # Times and bandwidths are means of five runs: they differ by up to 0.3 % more than by their rounding.
        found = message * ranks / float(row["seconds"]) / 1e9
        time_digits, digits = (len(row[key].partition(".")[2]) for key in ("seconds", "bandwidth"))
        slack = found * (0.5 * 10**-time_digits / float(row["seconds"]) + 0.003) + 0.5 * 10**-digits
        assert abs(found - float(row["bandwidth"])) <= slack, f"{row}: {found} GB/s"
        if row["copy"]:
            check_sum(row, ("copy", "host_exchange"), "host_total", 0.0011)
    for kernel in kernels():  # Eqs. 4a and 4b of the Gray-Scott paper
        assert abs(kernel.moved / kernel.seconds / kernel.bandwidth - 1) <= 0.023, kernel
