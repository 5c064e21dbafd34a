"""Which registry an address stands for: the only module that names them all.

/srv/models, file:///srv/models       a directory
https://host/path                     what a web server shows of such a directory, read-only
s3://host/bucket/prefix               an object store (s3+http:// without TLS)
mlflow://host/path                    an MLflow server (mlflow+http:// without TLS)
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from gateway.config import RegistrySettings
from gateway.models.registry import ModelRegistry, RegistryError
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.kinds.mlflow import MlflowRegistry
from gateway.models.registry.kinds.objectstore import ObjectStoreRegistry
from gateway.models.registry.kinds.web import Access
from gateway.models.registry.kinds.website import WebsiteRegistry
from gateway.protocols.aws.sigv4 import AwsKeys, Signer

_PLAIN = {"http": "http", "s3+http": "http", "mlflow+http": "http"}


def opened(settings: RegistrySettings) -> ModelRegistry:
    """Raises RegistryError for an address that is none."""
    url = settings.url
    if "://" not in url:
        return DirectoryRegistry(Path(url))
    parts = urlsplit(url)
    kind = parts.scheme.partition("+")[0]
    if parts.username or parts.password or parts.query or parts.fragment:
        raise RegistryError(
            "a registry's URL has no credentials, query or fragment: credentials go into the "
            "settings (registries)"
        )
    if kind == "file":
        if parts.netloc not in ("", "localhost"):
            raise RegistryError(f"{url}: write file:///path, with three slashes")
        return DirectoryRegistry(Path(parts.path))
    if kind not in ("http", "https", "s3", "mlflow") or not parts.netloc:
        raise RegistryError(
            f"{url}: no kind of registry; give a path, or https://, s3://, s3+http://, mlflow:// "
            "or mlflow+http://"
        )
    origin = f"{_PLAIN.get(parts.scheme, 'https')}://{parts.netloc}"
    access = Access(
        ca_file=settings.ca_file,
        token=None if settings.api_key is None else settings.api_key.get_secret_value(),
        silent_s=settings.silent_s,
    )
    if kind == "mlflow":
        return MlflowRegistry(origin + parts.path, access)
    if kind == "s3":
        bucket, _, prefix = parts.path.strip("/").partition("/")
        if not bucket:
            raise RegistryError(f"{url}: has no bucket; write s3://host/bucket/prefix")
        return ObjectStoreRegistry(origin, bucket, prefix, access, _signer(settings))
    return WebsiteRegistry(origin + parts.path, access)


def _signer(settings: RegistrySettings) -> Signer | None:
    if settings.access_key is None or settings.secret_key is None:
        return None
    keys = AwsKeys(settings.access_key.get_secret_value(), settings.secret_key.get_secret_value())
    return Signer(keys, settings.region, "s3")
