# The gateway without Triton: what runs on premises beside your inference servers (deploy/compose.yaml).
# Pin the base image to a digest of your own registry before you build for production.

FROM python:3.12-slim-bookworm AS builder
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv /opt/spillway
COPY requirements/gateway.txt requirements/
RUN /opt/spillway/bin/pip install --require-hashes --requirement requirements/gateway.txt
# What a call passes through is compiled (docs/explanation/compiled.md); --build-arg SPILLWAY_COMPILE= leaves it out.
ARG SPILLWAY_COMPILE=1
COPY requirements/compile.txt requirements/
# hadolint ignore=DL3008
RUN test -z "$SPILLWAY_COMPILE" || { apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && /opt/spillway/bin/pip install --require-hashes --target /opt/compiler \
      --requirement requirements/compile.txt; }
COPY pyproject.toml setup.py README.md LICENSE ./
COPY gateway gateway
RUN PYTHONPATH=/opt/compiler SPILLWAY_COMPILE=$SPILLWAY_COMPILE \
    /opt/spillway/bin/pip install --no-deps --no-build-isolation . \
    && /opt/spillway/bin/pip uninstall --yes pip \
    && install -d -o 10001 -g 10001 /state
# For processors like this one. Another's patterns are compiled at the first start, beside the records.
RUN XDG_CACHE_HOME=/opt/spillway/share /opt/spillway/bin/spillway prepare \
    && chmod -R a+rX /opt/spillway/share

FROM python:3.12-slim-bookworm
# Nothing is written but the decision log and compiled patterns in /var/lib/spillway, and scratch
# files in /tmp.
ENV PATH=/opt/spillway/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    XDG_CACHE_HOME=/var/lib/spillway/cache
COPY --from=builder /opt/spillway /opt/spillway
COPY --from=builder --chown=10001:10001 /state /var/lib/spillway
USER 10001:10001
WORKDIR /var/lib/spillway
VOLUME /var/lib/spillway
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["spillway", "healthcheck"]
ENTRYPOINT ["spillway"]
CMD ["serve", "--config", "/etc/spillway/spillway.yaml"]
