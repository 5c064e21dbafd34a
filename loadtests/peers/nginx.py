"""nginx: what a proxy costs that reads nothing at all."""

from __future__ import annotations

from loadtests.peers import Running, Site, environments
from loadtests.peers.process import Process
from loadtests.ports import free_port

_SETTINGS = """
daemon off;
worker_processes 1;
pid {scratch}/pid;
error_log {scratch}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {scratch}/body;
  proxy_temp_path {scratch}/proxy;
  fastcgi_temp_path {scratch}/fastcgi;
  uwsgi_temp_path {scratch}/uwsgi;
  scgi_temp_path {scratch}/scgi;
  client_body_buffer_size 64k;
  keepalive_requests 1000000000;
  upstream backend {{ server 127.0.0.1:{http}; keepalive 256; keepalive_requests 1000000000; }}
  upstream tensors {{ server 127.0.0.1:{grpc}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header connection "";
      proxy_buffering off;
    }}
  }}
  server {{
    listen 127.0.0.1:{grpc_port} http2;
    http2_max_requests 1000000000;
    location / {{ grpc_pass grpc://tensors; }}
  }}
}}
"""


class Nginx:
    name = "nginx"
    note = "reads nothing: a floor, not a gateway"

    def __init__(self) -> None:
        self._process: Process | None = None

    def start(self, site: Site) -> Running:
        program = environments.debian(site.environments / self.name, "nginx", "usr/sbin/nginx")
        scratch = site.scratch / self.name
        scratch.mkdir()
        port, grpc_port = free_port(), free_port()
        settings = scratch / "nginx.conf"
        settings.write_text(
            _SETTINGS.format(
                scratch=scratch,
                http=site.http_port,
                grpc=site.grpc_port,
                port=port,
                grpc_port=grpc_port,
            )
        )
        self._process = Process(
            [program, "-c", settings, "-p", scratch, "-e", scratch / "error.log"], scratch / "log"
        )
        self._process.await_answer(port, "/health", 20)
        url = f"http://127.0.0.1:{port}"
        return Running((self._process.pid,), url, url, f"127.0.0.1:{grpc_port}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
