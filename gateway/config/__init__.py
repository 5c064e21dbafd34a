"""Every setting, typed; unknown keys are refused with the file and line they stand on.

`check` and `serve` read through `load` alone, so what the one accepts the other accepts (O1).
A file for each group of sections, put together in `settings`, read by `reading`.
"""

from gateway.config.reading import load as load
from gateway.config.reading import parse as parse
from gateway.config.reading import schema as schema
from gateway.config.section import Contradiction as Contradiction
from gateway.config.section import Name as Name
from gateway.config.sections.audit import AuditSettings as AuditSettings
from gateway.config.sections.callers import CertificateSettings as CertificateSettings
from gateway.config.sections.callers import IssuerSettings as IssuerSettings
from gateway.config.sections.callers import KeySettings as KeySettings
from gateway.config.sections.callers import ScopeSettings as ScopeSettings
from gateway.config.sections.callers import TenantSettings as TenantSettings
from gateway.config.sections.classify import ClassifySettings as ClassifySettings
from gateway.config.sections.classify import MemorySettings as MemorySettings
from gateway.config.sections.classify import NamesSettings as NamesSettings
from gateway.config.sections.cluster import ClusterSettings as ClusterSettings
from gateway.config.sections.cluster import PeerSettings as PeerSettings
from gateway.config.sections.console import ConsoleSettings as ConsoleSettings
from gateway.config.sections.console import OperatorSettings as OperatorSettings
from gateway.config.sections.costs import CostSettings as CostSettings
from gateway.config.sections.costs import LedgerSettings as LedgerSettings
from gateway.config.sections.endpoints import EndpointSettings as EndpointSettings
from gateway.config.sections.endpoints import TlsSettings as TlsSettings
from gateway.config.sections.health import HealthSettings as HealthSettings
from gateway.config.sections.listen import LimitSettings as LimitSettings
from gateway.config.sections.listen import ListenSettings as ListenSettings
from gateway.config.sections.listen import ListenTlsSettings as ListenTlsSettings
from gateway.config.sections.models import ModelSettings as ModelSettings
from gateway.config.sections.models import ServedBySettings as ServedBySettings
from gateway.config.sections.registries import RegistrySettings as RegistrySettings
from gateway.config.sections.reload import ReloadSettings as ReloadSettings
from gateway.config.sections.routing import QueueSettings as QueueSettings
from gateway.config.sections.routing import RoutingSettings as RoutingSettings
from gateway.config.sections.routing import ShadowSettings as ShadowSettings
from gateway.config.sections.telemetry import LogSettings as LogSettings
from gateway.config.sections.telemetry import TelemetrySettings as TelemetrySettings
from gateway.config.settings import ISSUED_PREFIX as ISSUED_PREFIX
from gateway.config.settings import Settings as Settings
from gateway.core.yaml_document import ConfigError as ConfigError
