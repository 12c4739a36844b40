"""llama_server.py MODEL PORT-FILE: llama.cpp's own OpenAI-compatible server on a port that it writes to the file. Needs
xllamacpp, the package of llama.cpp that has wheels."""
import sys
import time

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.n_ctx = 8192
parameters.n_parallel = 1
parameters.n_gpu_layers = 0
parameters.warmup = False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.endpoint_metrics = True
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
parameters.chat_template = "chatml"
server = xllamacpp.Server(parameters)
with open(sys.argv[2], "w", encoding="ascii") as file:
    file.write(server.listening_address.rsplit(":", 1)[1].rstrip("/"))
while True:
    time.sleep(60)
