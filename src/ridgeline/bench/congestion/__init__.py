"""What a job loses to the traffic of others: GPCNeT's network tests, alone and beside background traffic."""
