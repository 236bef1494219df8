"""Congestion: what background traffic costs the latency and bandwidth of others, as GPCNeT measures it.

Begin with congestion_benchmark.py, which divides the ranks into testers (network_tests.py) and senders
(background.py).
"""
