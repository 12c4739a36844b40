"""name_server.py ADDRESS READYFILE: a DNS server on port 53 of a loopback address; every name is 127.0.0.1. Makes READYFILE
when it listens."""
import socket
import struct
import sys

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
with open(sys.argv[2], "w"):
    pass
while True:
    query, peer = server.recvfrom(512)
    end = 12
    while query[end]:
        end += query[end] + 1
    question = query[12 : end + 5]
    kind = struct.unpack(">H", question[-4:-2])[0]
    answers = struct.pack(">HHHIH4B", 0xC00C, 1, 1, 60, 4, 127, 0, 0, 1) if kind == 1 else b""  # A; nothing else is known
    server.sendto(query[:2] + struct.pack(">5H", 0x8180, 1, len(answers) // 16, 0, 0) + question + answers, peer)
