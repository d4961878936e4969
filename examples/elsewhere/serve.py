"""Lets a browser answer a question of `xbench ask`: python serve.py QUESTION ANSWERS [HOST [PORT]]

Then open the page, which runs the network with ONNX Runtime Web (`npm install onnxruntime-web` in this folder). For a
phone in your network give 0.0.0.0 as HOST: whoever reaches it can read this folder and the question, and write answers.
"""

import re
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE, MOST = Path(__file__).resolve().parent, 2**30
QUESTION, ANSWERS = (Path(word).resolve() for word in sys.argv[1:3])
ANSWER = re.compile(r"/answers/((test_data_set_\d+/output_\d+\.bin)|times\.json)", re.ASCII)


class Handler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}

    def translate_path(self, path: str) -> str:
        inner = super().translate_path(path.removeprefix("/question"))
        place = QUESTION if path.startswith("/question/") else HERE
        return str(place / Path(inner).relative_to(self.directory))

    def do_PUT(self) -> None:
        name, size = ANSWER.fullmatch(self.path), int(self.headers.get("Content-Length", 0))
        if not name or size > MOST:
            self.send_error(403)
            return
        target = ANSWERS / name[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.rfile.read(size))
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    host, port = [*sys.argv[3:], *("localhost", "8000")[len(sys.argv[3:]) :]]
    server = ThreadingHTTPServer((host, int(port)), Handler)
    print(f"open http://{host}:{server.server_port}/page.html", flush=True)
    server.serve_forever()
