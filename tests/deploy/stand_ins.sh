#!/bin/sh
# Images of the names that deploy/Dockerfile and deploy/compose.yaml ask a registry for, made of
# Debian's packages where no registry can be reached. As root, from the top of the repository:
#   sh tests/deploy/stand_ins.sh docker      # or podman
# Needs debootstrap and .venv with requirements/test.lock, from which nats-server is taken. They are for a trial:
# what runs in them is not what the registry has under these names. Grafana is not among them.
set -eu
engine=$1
mirror=${MIRROR:-http://deb.debian.org/debian}
certificates=/usr/local/share/ca-certificates
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

debian() { # FOLDER PACKAGE ...
  root=$1; shift
  debootstrap --variant=minbase --include="$(echo ca-certificates "$@" | tr ' ' ,)" bookworm "$root" "$mirror" >"$root.log" ||
    { cat "$root.log"; exit 1; }
  # Authorities of this machine's own, as where a proxy stands before the index of packages.
  if [ -d $certificates ]; then cp -r $certificates/. "$root$certificates"; chroot "$root" update-ca-certificates >/dev/null 2>&1; fi
  # As Docker's own Debian has it: nothing that apt has fetched stays in an image.
  printf '%s\n' 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };' 'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";' \
    >"$root/etc/apt/apt.conf.d/docker-clean"
  rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* \
    "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale
}

import() { # FOLDER NAME CHANGE ...
  root=$1 name=$2; shift 2
  for change; do shift; set -- "$@" --change "$change"; done
  tar -C "$root" -c . | "$engine" import "$@" - "$name"
}

authorities=/etc/ssl/certs/ca-certificates.crt
debian "$folder/python" python3 python3-venv
import "$folder/python" python:3.11-slim-bookworm "ENV SSL_CERT_FILE=$authorities" "ENV PIP_CERT=$authorities" 'CMD ["python3"]'

mkdir "$folder/nats" && mkdir -m 1777 "$folder/nats/tmp"
cp "$(.venv/bin/python -c 'from visavis.tools.stack.nats_server import nats_server_binary as b; print(b())')" "$folder/nats/nats-server"
import "$folder/nats" nats:2.15.1-alpine 'ENTRYPOINT ["/nats-server"]'

debian "$folder/prometheus" prometheus
mkdir -p "$folder/prometheus/prometheus" && chown nobody:nogroup "$folder/prometheus/prometheus"
import "$folder/prometheus" prom/prometheus:v3.5.0 'USER nobody' 'WORKDIR /prometheus' 'ENTRYPOINT ["/usr/bin/prometheus"]' 'EXPOSE 9090'
