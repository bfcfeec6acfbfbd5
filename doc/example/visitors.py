#!/usr/bin/env -S python3 -B
"""visitors.py - people who come to chatd, say something and leave.

    visitors.py PORT [VISITORS_PER_SECOND] [SECONDS]
"""
import random
import socket
import sys
import time

port = int(sys.argv[1])
rate = float(sys.argv[2]) if len(sys.argv) > 2 else 100
end = time.monotonic() + float(sys.argv[3]) if len(sys.argv) > 3 else None
while end is None or time.monotonic() < end:
    with socket.create_connection(("127.0.0.1", port)) as visitor:
        room = random.choice(["lobby", "lobby", "lobby", "kitchen", "library"])
        visitor.sendall(f"join {room}\nsay hello, {room}\nquit\n".encode())
        visitor.settimeout(5)
        while visitor.recv(4096):
            pass
    time.sleep(1 / rate)
