#!/bin/bash
# Healthy while the database answers reads and accepts writes: /readyz, which the server has on loopback.
set -euo pipefail

request=$'GET /readyz HTTP/1.0\r\n\r\n'
if [ -n "${TREEDB_TLS_CERTIFICATE:-}" ]; then
    # To itself: what is asked is whether it answers, not who it is.
    answer=$(printf '%s' "$request" | openssl s_client -quiet -no_ign_eof -connect 127.0.0.1:8080 2>/dev/null | head -1)
else
    exec {server}<>/dev/tcp/127.0.0.1/8080
    printf '%s' "$request" >&"$server"
    IFS= read -r answer <&"$server"
fi
[[ "$answer" == HTTP/1.?\ 200* ]]
