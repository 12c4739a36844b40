# shellcheck shell=bash
# Sourced by tests that fetch over TLS: an authority of our own in $WORK/ca.pem (and hashed in $WORK/hashed), which no
# machine trusts, and a server's certificate with its key in $WORK/server.pem, for planesmith.test and 127.0.0.1.
command -v openssl >/dev/null || skip "openssl is not installed"
{
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=an authority for tests' -keyout "$WORK/ca.key" -out "$WORK/ca.pem" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign &&
  openssl req -newkey rsa:2048 -nodes -subj /CN=planesmith.test -keyout "$WORK/server.key" -out "$WORK/server.csr" &&
  printf 'subjectAltName=DNS:planesmith.test,IP:127.0.0.1\n' >"$WORK/names" &&
  openssl x509 -req -days 2 -in "$WORK/server.csr" -CA "$WORK/ca.pem" -CAkey "$WORK/ca.key" -CAcreateserial -extfile "$WORK/names" \
    -out "$WORK/server.crt" &&
  cat "$WORK/server.crt" "$WORK/server.key" >"$WORK/server.pem" &&
  mkdir "$WORK/hashed" && cp "$WORK/ca.pem" "$WORK/hashed/$(openssl x509 -hash -noout -in "$WORK/ca.pem").0"
} >"$WORK/openssl.log" 2>&1 || { tail -3 "$WORK/openssl.log"; fail "no certificates can be made"; finish; }
unset SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE
