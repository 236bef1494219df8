"""Statistics gathered while the flow runs: running sums, averages over lines of points, terms of budgets."""
