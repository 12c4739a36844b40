'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const number = (x, digits = 4) => x.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits});
const signed = x => (x < 0 ? '\u2212' : '+') + number(Math.abs(x), 5);

function mix(from, to, t) {
  const part = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  return 'rgb(' + [0, 1, 2].map(i => Math.round(part(from, i) + (part(to, i) - part(from, i)) * t)).join(',') + ')';
}
const charts = [];
function draw(id, config) {
  config.options = Object.assign({animation: false, maintainAspectRatio: false, responsive: true}, config.options);
  charts.push(new Chart(byId(id), config));
}
function axis(text, more = {}) {
  return Object.assign({title: {display: true, text}, grid: {color: color('line')}, ticks: {maxRotation: 0, autoSkip: true, autoSkipPadding: 12}}, more);
}
function line(label, values, name) {
  return {label, data: values, borderColor: color(name), backgroundColor: color(name), pointRadius: values.length > 60 ? 0 : 2,
          borderWidth: 2};
}
// A threshold of the verdict.
function limit(label, values) {
  return Object.assign(line(label, values, 'bad'), {borderDash: [6, 4], pointRadius: 0});
}
// Makes a button save a file.
function saves(id, name, type, text) {
  byId(id).addEventListener('click', () => {
    const link = document.createElement('a');
    link.download = name;
    link.href = URL.createObjectURL(new Blob([text()], {type}));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
