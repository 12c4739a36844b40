# The portable programs and nothing else; scripts/release.sh makes them first.
#   ./scripts/release.sh && docker build -t planesmith .
#   docker run --user "$(id -u):$(id -g)" -v /models:/models:ro -v /caches:/caches planesmith build-planescache /models/flash --out /caches/flash
# pack-chunks fetch needs certificates: -v /etc/ssl/certs:/etc/ssl/certs:ro
FROM scratch
COPY build/portable/planesmith-*-linux-*/ /usr/
USER 65532:65532
ENV PATH=/usr/bin
