"""Find by geometry what a reader would see go wrong on a page: boxes over boxes, text out of its box, parts cut off."""

from __future__ import annotations

from typing import Any

# Everything is measured as drawn. A path is sampled: it may touch its own two nodes only.
FAULTS = r"""
const faults = [];
const SMALLEST = 9; // pixels of letters, as a page is opened
const box = (element) => element.getBoundingClientRect();
const over = (a, b, slack = 0.5) =>
  a.left < b.right - slack && b.left < a.right - slack && a.top < b.bottom - slack && b.top < a.bottom - slack;
const within = (a, b, slack = 1) =>
  a.left >= b.left - slack && a.right <= b.right + slack && a.top >= b.top - slack && a.bottom <= b.bottom + slack;
const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).display !== "none";
const name = (element) =>
  (element.textContent || element.id || element.className || element.tagName).toString().slice(0, 60);

for (const svg of document.querySelectorAll("#graph svg, .drawing svg")) {
  const paper = box(svg);
  const nodes = [...svg.querySelectorAll(".node")];
  const bodies = nodes.map((node) => box(node.querySelector(".body")));
  const labels = [...svg.querySelectorAll(".edge text, .lane")].filter(shown);
  nodes.forEach((node, at) => {
    if (!within(box(node.querySelector(".body")), paper)) faults.push(`cut off: node ${name(node)}`);
    for (const text of node.querySelectorAll(":scope > text")) {
      if (!within(box(text), bodies[at])) faults.push(`out of its box: ${name(text)}`);
    }
    bodies.forEach((body, other) => {
      if (other < at && over(bodies[at], body))
        faults.push(`one over the other: ${name(node)} / ${name(nodes[other])}`);
      const badge = node.querySelector(".badge");
      if (other !== at && badge && over(box(badge), body)) faults.push(`over a box: ×n of ${name(node)}`);
    });
  });
  labels.forEach((label, at) => {
    if (!within(box(label), paper)) faults.push(`cut off: label ${name(label)}`);
    bodies.forEach((body, other) => {
      if (over(box(label), body)) faults.push(`label ${name(label)} over ${name(nodes[other])}`);
    });
    labels.slice(0, at).forEach((other) => {
      if (over(box(label), box(other))) faults.push(`label ${name(label)} over label ${name(other)}`);
    });
  });
  const matrix = svg.getScreenCTM();
  for (const text of [...svg.querySelectorAll("text")].filter(shown)) {
    if (text.textContent.endsWith("…")) faults.push(`shortened: ${name(text)}`);
    if (parseFloat(getComputedStyle(text).fontSize) * matrix.a < SMALLEST) faults.push(`too small: ${name(text)}`);
  }
  for (const edge of [...svg.querySelectorAll(".edge:not(.weak):not(.conflict)")].filter(shown)) {
    const path = edge.querySelector(".line");
    if (!within(box(path), paper, 2)) faults.push(`cut off: arrow to ${name(edge)}`);
    const length = path.getTotalLength();
    const [source, target] = [0, length].map((at) => path.getPointAtLength(at).matrixTransform(matrix));
    const touches = (body, point, by) =>
      point.x > body.left - by && point.x < body.right + by && point.y > body.top - by && point.y < body.bottom + by;
    for (let step = 1; step < 24; step += 1) {
      const point = path.getPointAtLength((length * step) / 24).matrixTransform(matrix);
      bodies.forEach((body, at) => {
        if (touches(body, point, -1.5) && !touches(body, source, 2) && !touches(body, target, 2))
          faults.push(`an arrow crosses ${name(nodes[at])}`);
      });
    }
  }
}
if (document.documentElement.scrollWidth > innerWidth) faults.push("the page is wider than its window");
for (const element of document.querySelectorAll("body *")) {
  if (element.closest("svg, #graph, .hidden-text, .skip, #tip, iframe, script") || !shown(element)) continue;
  const style = getComputedStyle(element);
  if (style.overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1)
    faults.push(`scrolls sideways: ${name(element)}`);
  if (style.overflowY === "hidden" && element.scrollHeight > element.clientHeight + 1)
    faults.push(`cut off below: ${name(element)}`);
  if (style.textOverflow === "ellipsis" && element.scrollWidth > element.clientWidth)
    faults.push(`shortened: ${name(element)}`);
}
const panels = [...document.querySelectorAll(".panel, .tile")].filter(shown);
panels.forEach((panel, at) => {
  if (!within(box(panel), { left: 0, right: innerWidth, top: -Infinity, bottom: Infinity }))
    faults.push(`out of the window: ${name(panel)}`);
  panels.slice(0, at).forEach((other) => {
    if (!panel.contains(other) && !other.contains(panel) && over(box(panel), box(other)))
      faults.push(`panel over panel: ${name(panel)}`);
  });
});
return [...new Set(faults)].slice(0, 20);
"""


def find_faults(browser: Any) -> list[str]:
    """Return what overlaps, sticks out or is cut off on the page as it is now."""
    found: list[str] = browser.execute_script(FAULTS)
    return found


def set_window(browser: Any, width: int, height: int = 1000) -> None:
    """Give the page a size, whatever the window's."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
