"""Which addresses look as if they stood outside the premises (BEHAVIOURS M6).

Only a look: a name of the organisation's own may lead anywhere, so the zone is what the settings
say. This catches the slip of a cloud address that is labelled on-prem, in whichever of its
spellings, and refuses spellings that programs read differently.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?"
_URL = re.compile(rf"https?://(?:{_HOST}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?(?:/[!-~]*)?", re.I)
_TARGET = re.compile(rf"(?:{_HOST}|\[[0-9A-Fa-f:.]+\]):[0-9]{{1,5}}")
_NUMBERS = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_CLOUD_SUFFIXES = (
    # general clouds
    "amazonaws.com", "api.aws", "on.aws", "aws.dev", "azure.com", "azure.net", "azureml.ms",
    "windows.net", "cloudapp.net", "azurewebsites.net", "azuredatabricks.net", "googleapis.com",
    "googleusercontent.com", "run.app", "cloudfunctions.net", "appspot.com", "oraclecloud.com",
    "oraclecloudapps.com", "appdomain.cloud", "cloud.ibm.com", "aliyuncs.com",
    "tencentcloudapi.com", "myhuaweicloud.com", "ovh.net", "scw.cloud", "ondigitalocean.app",
    "linode.com",
    "vultrusercontent.com", "hetzner.cloud", "ionos.com", "stackit.cloud", "otc.t-systems.com",
    # instances of theirs
    "ec2.internal", "compute.internal", "google.internal",
    # models as a service
    "openai.com", "anthropic.com", "mistral.ai", "nvidia.com", "ngc.nvidia.com", "x.ai",
    "huggingface.cloud", "huggingface.co", "hf.space", "together.xyz", "together.ai", "groq.com",
    "cohere.ai", "cohere.com", "fireworks.ai", "openrouter.ai", "deepinfra.com", "deepseek.com",
    "replicate.com", "perplexity.ai", "cerebras.ai", "sambanova.ai", "baseten.co", "modal.run",
    "modal.com", "runpod.net", "runpod.ai", "lambda.ai", "lambdalabs.com", "novita.ai",
    "nebius.ai", "nebius.com", "hyperbolic.xyz", "anyscale.com", "databricks.com", "jina.ai",
    "voyageai.com", "ai21.com", "aleph-alpha.com", "moonshot.cn", "moonshot.ai", "siliconflow.cn",
    "siliconflow.com", "bigmodel.cn", "minimax.io", "friendli.ai", "octoai.run", "banana.dev",
    # hosting and tunnels
    "vercel.app", "vercel.sh", "fly.dev", "herokuapp.com", "onrender.com", "railway.app",
    "workers.dev", "cloudflare.com", "trycloudflare.com", "netlify.app", "ngrok.io", "ngrok.app",
    "ngrok.dev", "ngrok-free.app", "ngrok-free.dev", "loca.lt", "pinggy.link", "serveo.net",
)  # fmt: skip
_GCE = re.compile(r"\.c\.[a-z0-9.:-]+\.internal")


def host_of_url(url: str) -> str:
    """Raises ValueError for a URL whose host is not beyond doubt."""
    if "@" in url:
        raise ValueError("must not carry a user name; credentials go into api_key or headers")
    if not _URL.fullmatch(url):
        raise ValueError(
            "must be http:// or https://, a host in ASCII, and at most a port and a path"
        )
    if re.search(r"[\\?#]", url):
        raise ValueError("must end with its path: no query, no fragment, no backslash")
    parts = urlsplit(url)
    _port(parts.port)
    return parts.hostname or ""


def host_of_target(target: str) -> str:
    """The host of gRPC's host:port. Raises ValueError for gRPC's other forms (`dns:///...`,
    `ipv4:...`), whose first word would be taken for the host."""
    if not _TARGET.fullmatch(target):
        raise ValueError("must be host:port")
    parts = urlsplit(f"//{target}")
    _port(parts.port)
    return parts.hostname or ""


def _port(port: int | None) -> None:
    if port == 0:
        raise ValueError("port 0 is no place")


def looks_like_cloud(host: str) -> bool:
    host = host.rstrip(".").lower()
    address = _address(host)
    if address is not None:
        return _leads_outside(address)
    if _GCE.search(host):
        return True
    return any(host == s or host.endswith("." + s) for s in _CLOUD_SUFFIXES)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Also of the forms that resolvers take: 134744072, 0x8.8.8.8, 8.8."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    if not _NUMBERS.fullmatch(host):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _leads_outside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global
    return address.is_global


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
