#!/bin/bash
# Healthy while the database answers reads and accepts writes: /readyz, which the server has on loopback.
set -euo pipefail

address="${TREEDB_ADMIN:-127.0.0.1:8080}"
port="${address##*:}"
request=$'GET /readyz HTTP/1.0\r\n\r\n'

# Whether the answer to a request is that it is.
plain() {
    local answer
    exec {server}<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf '%s' "$request" >&"$server" || return 1
    IFS= read -r answer <&"$server" || return 1
    [[ "$answer" == HTTP/1.?\ 200* ]]
}

# The same by TLS, to itself: what is asked is whether it answers, not who it is.
tls() {
    local answer
    answer=$(printf '%s' "$request" | openssl s_client -quiet -no_ign_eof -connect "127.0.0.1:$port" 2>/dev/null | head -1)
    [[ "$answer" == HTTP/1.?\ 200* ]]
}

# A file, a flag or a variable may have told the server to use TLS; it says nothing in plain text then.
[ -z "${TREEDB_TLS_CERTIFICATE:-}" ] && (plain) 2>/dev/null || tls
