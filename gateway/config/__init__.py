"""Every setting, typed; unknown keys are refused with the file and line they stand on.

`check` and `serve` read through `load` alone, so what the one accepts the other accepts (O1).
A file for each group of sections, put together in `settings`, read by `reading`.
"""

from gateway.config.audit import AuditSettings as AuditSettings
from gateway.config.callers import CertificateSettings as CertificateSettings
from gateway.config.callers import IssuerSettings as IssuerSettings
from gateway.config.callers import KeySettings as KeySettings
from gateway.config.callers import ScopeSettings as ScopeSettings
from gateway.config.callers import TenantSettings as TenantSettings
from gateway.config.classify import ClassifySettings as ClassifySettings
from gateway.config.classify import MemorySettings as MemorySettings
from gateway.config.classify import NamesSettings as NamesSettings
from gateway.config.cluster import ClusterSettings as ClusterSettings
from gateway.config.cluster import PeerSettings as PeerSettings
from gateway.config.console import ConsoleSettings as ConsoleSettings
from gateway.config.console import OperatorSettings as OperatorSettings
from gateway.config.costs import CostSettings as CostSettings
from gateway.config.costs import LedgerSettings as LedgerSettings
from gateway.config.endpoints import EndpointSettings as EndpointSettings
from gateway.config.endpoints import TlsSettings as TlsSettings
from gateway.config.health import HealthSettings as HealthSettings
from gateway.config.listen import LimitSettings as LimitSettings
from gateway.config.listen import ListenSettings as ListenSettings
from gateway.config.listen import ListenTlsSettings as ListenTlsSettings
from gateway.config.models import ModelSettings as ModelSettings
from gateway.config.models import ServedBySettings as ServedBySettings
from gateway.config.reading import load as load
from gateway.config.reading import parse as parse
from gateway.config.reading import schema as schema
from gateway.config.registries import RegistrySettings as RegistrySettings
from gateway.config.reload import ReloadSettings as ReloadSettings
from gateway.config.routing import QueueSettings as QueueSettings
from gateway.config.routing import RoutingSettings as RoutingSettings
from gateway.config.routing import ShadowSettings as ShadowSettings
from gateway.config.section import Contradiction as Contradiction
from gateway.config.section import Name as Name
from gateway.config.settings import ISSUED_PREFIX as ISSUED_PREFIX
from gateway.config.settings import Settings as Settings
from gateway.config.telemetry import LogSettings as LogSettings
from gateway.config.telemetry import TelemetrySettings as TelemetrySettings
from gateway.configfile import ConfigError as ConfigError
