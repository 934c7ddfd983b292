for (const figure of document.querySelectorAll(".figure")) {
  const steps = JSON.parse(figure.querySelector("script").textContent);
  const svg = figure.querySelector("svg"), pointer = svg.querySelector(".pointer"), tip = figure.querySelector(".tip");
  const show = on => { pointer.style.visibility = tip.style.visibility = on ? "visible" : "hidden"; };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const at = (event.clientX - box.left) * scale;
    const near = steps.reduce((a, b) => Math.abs(b.x - at) < Math.abs(a.x - at) ? b : a);
    pointer.setAttribute("x1", near.x); pointer.setAttribute("x2", near.x);
    tip.replaceChildren(...near.lines.map(line => {
      const row = document.createElement("div"); row.textContent = line; return row;
    }));
    const left = near.x / scale, space = box.width - left;
    tip.style.left = space > tip.offsetWidth + 16 ? left + 10 + "px" : left - tip.offsetWidth - 10 + "px";
    show(true);
  });
  svg.addEventListener("pointerleave", () => show(false));
}
