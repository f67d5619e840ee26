"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const touch = matchMedia("(pointer: coarse)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const NARROW = 520; // pixels of a plot, below which names are shortened and legends go below
  const chosen = Object.fromEntries(figures.map((figure) => [figure.key, 0]));

  // The library came compressed. As a script element its digest is checked against the page's policy.
  async function unpack() {
    const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  // "@blue/40" is 40% of the page's --blue.
  function colour(name) {
    const [word, share] = name.slice(1).split("/");
    const hex = getComputedStyle(root).getPropertyValue("--" + word).trim();
    if (share === undefined) return hex;
    const [r, g, b] = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${share / 100})`;
  }

  // A deep copy in the page's colours. Nothing but a colour begins with "@" where colours are looked for.
  function painted(value, key) {
    if (key === "colorscale") return value.map(([at, name]) => [at, colour(name)]);
    if (Array.isArray(value)) {
      const deep = key === "color" || (value.length && typeof value[0] === "object" && /^(annotations|shapes)$/.test(key));
      return deep ? value.map((v) => painted(v, key)) : value;
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, k)]));
    }
    const coloured = /color$/.test(key) && typeof value === "string" && value.startsWith("@");
    return coloured ? colour(value) : value;
  }

  const dressedAxis = () => ({
    gridcolor: colour("@faint"), linecolor: colour("@faint"), zerolinecolor: colour("@grey"), zeroline: false,
    tickfont: { color: colour("@soft") }, automargin: true, fixedrange: touch.matches,
  });

  const withTitle = (axis) => ({
    ...axis, title: { ...axis.title, font: { size: 12, color: colour("@soft") }, standoff: 8 },
  });

  function layoutOf(view, width, share) {
    const narrow = width < NARROW;
    const own = painted(view.layout, "");
    const layout = {
      ...own,
      width,
      height: view.layout.height * share,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12, color: colour("@ink") },
      margin: { l: 8, r: 12, t: own.annotations ? 30 : 12, b: 8 },
      dragmode: touch.matches ? false : "zoom",
      hoverlabel: {
        bgcolor: colour("@card"), bordercolor: colour("@faint"), font: { color: colour("@ink"), size: 12 }, align: "left",
      },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: narrow ? 11 : 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("@grey"), activecolor: colour("@accent") },
    };
    for (const key of Object.keys(own).filter((name) => /^[xy]axis/.test(name))) {
      layout[key] = { ...dressedAxis(), ...withTitle(own[key]) };
    }
    if (narrow && view.data.length > 4) {
      // A long legend takes its own room below the plot.
      layout.legend = { ...layout.legend, y: -0.16, yanchor: "top" };
      layout.height += 20 * Math.ceil(view.data.length / 2);
    }
    if (narrow && own.grid && own.grid.columns > 2) {
      // Small plots stand two in a row, as high as they were.
      const rows = Math.ceil(own.annotations.length / 2);
      layout.grid = { ...own.grid, columns: 2, rows };
      layout.height *= rows / own.grid.rows;
    }
    if (narrow && own.xaxis.ticktext && own.xaxis.ticktext.length > 9) layout.xaxis.showticklabels = false;
    if (layout.yaxis.ticktext) {
      const most = narrow ? 20 : 42;
      layout.yaxis.ticktext = layout.yaxis.ticktext.map((text) => shortened(text, most));
      layout.yaxis.showgrid = !narrow && own.yaxis.showgrid !== false;
    }
    return layout;
  }

  // An escaped text, cut out of its middle; an entity counts as one character and is not cut.
  function shortened(text, most) {
    const letters = text.match(/&[a-z0-9#]+;|./gsu) || [];
    if (letters.length <= most) return text;
    const head = Math.floor(most / 3);
    return letters.slice(0, head).join("") + "…" + letters.slice(letters.length - (most - 1 - head)).join("");
  }

  const config = {
    displaylogo: false,
    displayModeBar: touch.matches ? false : "hover",
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
    doubleClick: "reset",
  };

  function draw(figure, width, share = 1) {
    const place = document.getElementById(figure.key);
    const view = figure.views[chosen[figure.key]];
    const drawn = view.data.map((trace) => painted(trace, ""));
    return Plotly.react(place, drawn, layoutOf(view, Math.floor(width || place.clientWidth), share), config);
  }

  const drawAll = (width) => Promise.all(figures.map((figure) => draw(figure, width)));

  function listen() {
    for (const button of document.querySelectorAll("button[data-figure]")) {
      button.addEventListener("click", () => {
        const figure = figures.find(({ key }) => key === button.dataset.figure);
        chosen[figure.key] = Number(button.dataset.view);
        for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
        draw(figure);
      });
    }
    dark.addEventListener("change", () => drawAll());
    let last = innerWidth, waiting;
    addEventListener("resize", () => {
      if (innerWidth === last) return; // a phone's address bar came or went
      last = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => drawAll(), 100);
    });
    // On paper: light, as wide as a page is, and not so high.
    addEventListener("beforeprint", () => {
      root.classList.add("paper");
      for (const figure of figures) {
        const wide = document.getElementById(figure.key).closest(".wide");
        draw(figure, wide ? 670 : 310, 0.75);
      }
    });
    addEventListener("afterprint", () => {
      root.classList.remove("paper");
      drawAll();
    });
  }

  unpack()
    .then(() => drawAll())
    .then(() => {
      listen();
      root.dataset.drawn = figures.length;
    })
    .catch((error) => {
      document.getElementById("notice").textContent =
        "The plots could not be drawn: this browser is older than 2023, or does not allow scripts. Text and tables are all here.";
      console.error(error);
    });
})();
