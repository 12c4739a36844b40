// The chart of rates over thread counts, drawn by the plotting library that the programs' report uses.
#include "bench/scaling.h"
#include "page/page.h"

namespace planesmith::bench {
namespace {

constexpr std::string_view kPage = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Rates over threads</title>
<style>
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
section { border: 1px solid #8886; border-radius: .5rem; padding: 1rem; min-width: 0; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 0; } div { position: relative; height: 18rem; }
</style></head><body><h1>Rates over threads</h1><p id="machine"></p><main></main>
<script type="application/json" id="data">@@data@@</script>
<script>@@chart.js@@</script>
<script>
const data = JSON.parse(document.getElementById('data').textContent);
document.getElementById('machine').textContent = data.machine;
for (const series of data.series) {
  const section = document.createElement('section'), title = document.createElement('h2');
  title.textContent = series.name + ', ' + series.where;
  const box = document.createElement('div'), canvas = document.createElement('canvas');
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', series.points.map(p => p.threads + ' threads: ' + p.gb_per_s.toFixed(2) +
    ' GB/s, ' + series.yardstick + ' ' + p.yardstick_gb_per_s.toFixed(2) + ' GB/s').join('; '));
  box.append(canvas); section.append(title, box); document.querySelector('main').append(section);
  const line = (label, key, colour, dash) => ({label, data: series.points.map(p => p[key]), borderColor: colour,
    backgroundColor: colour, borderDash: dash});
  new Chart(canvas, {type: 'line',
    data: {labels: series.points.map(p => p.threads),
           datasets: [line('this program', 'gb_per_s', '#0a5fb4', []),
                      line(series.yardstick, 'yardstick_gb_per_s', '#b35900', [6, 4])]},
    options: {maintainAspectRatio: false, animation: false,
      scales: {x: {title: {display: true, text: 'threads'}},
               y: {beginAtZero: true, title: {display: true, text: 'GB/s read and written'}}}}});
}
</script></body></html>
)";

void replace(std::string& text, std::string_view mark, std::string_view by) {
  text.replace(text.find(mark), mark.size(), by);
}

}  // namespace

std::string scaling_html(const std::vector<Series>& series, const std::string& machine) {
  require_plotting_library();
  std::string page(kPage);
  replace(page, "@@chart.js@@", kChartLibrary);
  replace(page, "@@data@@", compact({{"machine", machine}, {"series", to_json(series)}}));
  return page;
}

}  // namespace planesmith::bench
