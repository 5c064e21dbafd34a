"""M6: a cloud address that is labelled on-prem is caught, in whichever of its spellings."""

from __future__ import annotations

import pytest

from gateway.config import external_addresses

OUTSIDE = [
    "api.openai.com",
    "API.OpenAI.COM",
    "api.openai.com.",
    "my-resource.openai.azure.com",
    "bedrock-runtime.eu-central-1.amazonaws.com",
    "vm-1.westeurope.cloudapp.azure.com",
    "europe-west1-aiplatform.googleapis.com",
    "abc-123.ngrok-free.app",
    "integrate.api.nvidia.com",
    "ip-10-0-0-7.eu-west-1.compute.internal",
    "ip-10-0-0-7.ec2.internal",
    "vm.europe-west1-b.c.my-project.internal",
    "metadata.google.internal",
    "llm.startup.dev",
    "gpu.klinik.de",
    "xn--klnik-jua.de",
    "8.8.8.8",
    "8.8.8.8.",
    "134744072",
    "0x08080808",
    "0x8.0x8.0x8.0x8",
    "010.010.010.010",
    "8.526344",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "::ffff:808:808",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]
INSIDE = [
    "localhost",
    "gpu-1",
    "triton",
    "gpu-1.internal",
    "triton.gpu.svc.cluster.local",
    "gpu.hospital.example",
    "inference.mycorp.internal",
    "openai.com.gpu.example",
    "cloud",
    "nas.home.arpa",
    "gpu.lan",
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.9",
    "192.168.1.1",
    "192.168.1.1.",
    "167772161",
    "0x0a000001",
    "169.254.10.10",
    "100.64.0.1",
    "::1",
    "fd00::7",
    "fe80::1%eth0",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "2002:a00:1::1",
]


@pytest.mark.parametrize("host", OUTSIDE)
def test_what_could_be_outside_is_told(host: str) -> None:
    assert external_addresses.could_be_outside(host)


@pytest.mark.parametrize("host", INSIDE)
def test_a_private_name_or_address_is_inside(host: str) -> None:
    assert not external_addresses.could_be_outside(host)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://gpu-1:8000", "gpu-1"),
        ("https://api.openai.com/v1", "api.openai.com"),
        ("HTTP://GPU-1/", "gpu-1"),
        ("http://[fd00::7]:8000/v2", "fd00::7"),
        ("http://gpu_1.lan.:80", "gpu_1.lan."),
        ("http://134744072/", "134744072"),
    ],
)
def test_the_host_of_a_plain_url_is_read(url: str, host: str) -> None:
    assert external_addresses.url_host(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "gpu-1:8000",
        "ftp://gpu-1",
        "//gpu-1",
        "http://",
        "http:///v1",
        "http://gpu-1@api.openai.com/",
        "http://user:password@gpu-1/",
        "http://api.openai.com\\@gpu-1/",
        "http://gpu-1\\.evil.example/",
        "http://api%2eopenai.com/",
        "http://api\u3002openai\u3002com/",
        "http://\uff41pi.openai.com/",
        "http://gpu-1/?next=http://api.openai.com",
        "http://gpu-1/#part",
        "http://gpu-1 /",
        " http://gpu-1/",
        "http://gpu-1/\n",
        "http://gpu-1:99999/",
        "http://gpu-1:0/",
        "http://gpu-1:/",
        "http://[fd00::7/",
        "http://[fe80::1%25eth0]/",
        "http://-gpu/",
    ],
)
def test_a_url_whose_host_programs_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|[Pp]ort|IPv"):
        external_addresses.url_host(url)


def test_credentials_in_a_url_are_not_repeated_in_the_refusal() -> None:
    with pytest.raises(ValueError, match="user name") as caught:
        external_addresses.url_host("http://user:hunter2@gpu-1/")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "host"),
    [("gpu-1:8001", "gpu-1"), ("10.0.0.1:8001", "10.0.0.1"), ("[fd00::7]:8001", "fd00::7")],
)
def test_the_host_of_a_grpc_target_is_read(target: str, host: str) -> None:
    assert external_addresses.target_host(target) == host


@pytest.mark.parametrize(
    "target",
    [
        "gpu-1",
        "gpu-1:",
        "gpu-1:0",
        "gpu-1:70000",
        "dns:///api.openai.com:443",
        "dns:api.openai.com:443",
        "ipv4:8.8.8.8:443",
        "ipv4:10.0.0.1:1,8.8.8.8:443",
        "unix:/tmp/socket",
        "xds:///api",
        "http://gpu-1:8001",
        "user@api.openai.com:443",
        "gpu-1:8001/path",
        "fd00::7:8001",
        "",
    ],
)
def test_grpcs_other_ways_to_name_a_server_are_refused(target: str) -> None:
    with pytest.raises(ValueError, match=r"must|[Pp]ort"):
        external_addresses.target_host(target)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("localhost.evil.example", False),
    ],
)  # fmt: skip
def test_only_the_loopback_is_loopback(host: str, loopback: bool) -> None:
    assert external_addresses.is_loopback(host) is loopback
