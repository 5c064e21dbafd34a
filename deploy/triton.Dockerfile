# NVIDIA's Triton with what the code in models/ imports, installed beside its own packages.
FROM nvcr.io/nvidia/tritonserver:25.08-py3
COPY requirements/models.txt /tmp/models.txt
RUN pip install --no-cache-dir --require-hashes --target=/opt/models-packages \
      --requirement /tmp/models.txt
ENV PYTHONPATH=/opt/models-packages
# The image's own user without privileges.
USER 1000:1000
