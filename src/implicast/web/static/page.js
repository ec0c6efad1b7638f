// What the page does beyond links and forms: news, completion, the mark under a wrong place, progress of uploads.
// Everything here is an addition: without it the page reads and writes as before.
"use strict";
(() => {
  const live = document.getElementById("live");
  const say = (text) => { if (live) live.textContent = text; };

  // --- news: one stream for all tabs, for a browser opens six connections to a place and no more; the tab that holds it
  // tells the others. Whoever wants to hear names the event in hx-trigger.
  let last = null;
  const listen = () => {
    const stream = new EventSource("/events");
    stream.addEventListener("open", () => { if (last === "lost") { say("Connected again."); tell("inbox"); tell("sent"); } last = "open"; });
    stream.addEventListener("error", () => { last = "lost"; say("The node does not answer; trying again."); });
    stream.addEventListener("news", (event) => { tell(event.data); if (air) air.postMessage(event.data); });
    window.addEventListener("pagehide", () => stream.close());
  };
  const tell = (what) => {
    if (window.htmx) window.htmx.trigger(document.body, "news-" + what);
    if (what === "inbox" && !document.getElementById("list")) say("A letter has come.");
  };
  const air = window.BroadcastChannel && navigator.locks ? new BroadcastChannel("news") : null;
  if (air) {
    air.addEventListener("message", (event) => tell(event.data));
    navigator.locks.request("news", () => new Promise(() => listen()));
  } else if (window.EventSource) listen();

  // --- the target: completion and the mark
  const target = document.querySelector("input[data-tags]");
  const ghost = document.getElementById("ghost");
  const box = document.getElementById("completions");
  const mark = () => {
    if (!ghost || !target) return;
    const wrong = document.querySelector("#meaning [data-column]");
    const column = wrong ? parseInt(wrong.dataset.column, 10) : 0;
    target.toggleAttribute("aria-invalid", false);
    ghost.textContent = "";
    if (!wrong) { target.removeAttribute("aria-invalid"); return; }
    target.setAttribute("aria-invalid", "true");
    if (!column) return;
    const under = document.createElement("mark");
    under.textContent = target.value.slice(column - 1, column) || " ";
    ghost.append(target.value.slice(0, column - 1), under, target.value.slice(column));
    ghost.scrollLeft = target.scrollLeft;
  };
  document.body.addEventListener("htmx:afterSwap", (event) => { if (event.detail.target.id === "meaning") mark(); });

  if (target && box) {
    const known = target.dataset.tags.split(" ").filter(Boolean);
    let chosen = -1;
    target.removeAttribute("list");
    target.setAttribute("role", "combobox");
    target.setAttribute("aria-autocomplete", "list");
    target.setAttribute("aria-controls", "completions");
    target.setAttribute("aria-expanded", "false");
    const word = () => /[^\s&|!()",]*$/.exec(target.value.slice(0, target.selectionStart))[0];
    const hide = () => { box.hidden = true; chosen = -1; target.setAttribute("aria-expanded", "false"); target.removeAttribute("aria-activedescendant"); };
    const take = (tag) => {
      const at = target.selectionStart, begun = word().length;
      target.value = target.value.slice(0, at - begun) + tag + target.value.slice(at);
      target.setSelectionRange(at - begun + tag.length, at - begun + tag.length);
      hide(); target.focus();
      target.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const show = () => {
      const begun = word().toLowerCase();
      const fits = begun ? known.filter((tag) => tag.startsWith(begun) && tag !== begun).slice(0, 8) : [];
      box.textContent = "";
      if (!fits.length) { hide(); return; }
      fits.forEach((tag, number) => {
        const line = document.createElement("li");
        line.id = "completion" + number; line.setAttribute("role", "option"); line.textContent = tag;
        line.addEventListener("mousedown", (event) => { event.preventDefault(); take(tag); });
        box.append(line);
      });
      box.hidden = false; chosen = -1; target.setAttribute("aria-expanded", "true");
    };
    const choose = (step) => {
      const lines = [...box.children];
      if (lines[chosen]) lines[chosen].removeAttribute("aria-selected");
      chosen = (chosen + step + lines.length) % lines.length;
      lines[chosen].setAttribute("aria-selected", "true");
      target.setAttribute("aria-activedescendant", lines[chosen].id);
    };
    target.addEventListener("input", (event) => { if (event.isTrusted) show(); });
    target.addEventListener("blur", hide);
    target.addEventListener("keydown", (event) => {
      if (box.hidden) return;
      if (event.key === "ArrowDown") { choose(1); event.preventDefault(); }
      else if (event.key === "ArrowUp") { choose(-1); event.preventDefault(); }
      else if (event.key === "Escape") { hide(); event.preventDefault(); }
      else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) { take(box.children[chosen].textContent); event.preventDefault(); }
    });
    target.addEventListener("scroll", () => { ghost.scrollLeft = target.scrollLeft; });
    mark();
  }

  // --- a draft: "Kept." stands for what is in the fields now. What the node has not confirmed waits in this tab, so that
  // a reload, or a node that is away for a while, loses nothing.
  const handed = sessionStorage.getItem("handed"); // a form whose answer is this page: the node has what it said
  if (handed) { sessionStorage.removeItem(handed); sessionStorage.removeItem("handed"); }
  const form = document.getElementById("draft");
  const kept = document.getElementById("saved");
  if (form && kept) {
    const place = "draft " + form.dataset.save;
    const fields = () => ["target", "subject", "body"].map((name) => form.elements[name]).filter(Boolean);
    let typed = 0, safe = 0, timer = 0, busy = false;
    const note = () => sessionStorage.setItem(place, JSON.stringify({ at: Date.now(), words: fields().map((each) => [each.name, each.value]) }));
    const hand = () => { safe = typed; sessionStorage.setItem("handed", place); };
    const later = (wait) => { clearTimeout(timer); timer = setTimeout(save, wait); };
    const save = async () => {
      if (busy || safe === typed) return;
      busy = true;
      const now = typed;
      const answer = await fetch(form.dataset.save, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "HX-Request": "true" } }).catch(() => null);
      busy = false;
      if (answer && answer.ok) safe = now;
      if (safe === typed) { sessionStorage.removeItem(place); kept.textContent = "Kept."; }
      else if (answer && answer.status === 404) kept.textContent = "This draft is not there any more: it was sent or thrown away.";
      else if (answer) later(answer.ok ? 0 : 5000);
      else { kept.textContent = "Kept in this tab; the node does not answer."; later(2000); }
    };
    const change = () => { typed += 1; kept.textContent = ""; note(); later(400); };
    form.addEventListener("input", change);
    form.addEventListener("submit", hand);
    window.addEventListener("pagehide", () => {
      if (safe !== typed) fetch(form.dataset.save, { method: "POST", body: new URLSearchParams(new FormData(form)), keepalive: true });
    });
    document.addEventListener("DOMContentLoaded", () => {
      const noted = JSON.parse(sessionStorage.getItem(place) || "null");
      const newer = noted && noted.at * 1000 > Number(form.dataset.at); // than what the node has, perhaps from another tab
      if (!newer) sessionStorage.removeItem(place);
      const waiting = new Map(newer ? noted.words : []);
      for (const each of fields()) if (waiting.has(each.name)) each.value = waiting.get(each.name);
      const early = fields().filter((each) => each.value !== each.defaultValue);
      for (const each of early) each.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }

  // --- what is attached goes at once, with its progress
  const attach = document.getElementById("attach");
  if (attach && form) {
    const progress = document.getElementById("progress");
    attach.querySelector("input[type=file]").addEventListener("change", (event) => {
      if (!event.target.files.length) return;
      const parts = new FormData(attach);
      for (const name of ["target", "subject", "body"]) if (form.elements[name]) parts.append(name, form.elements[name].value);
      const request = new XMLHttpRequest();
      request.upload.addEventListener("progress", (step) => { progress.hidden = false; progress.value = 100 * step.loaded / step.total; });
      request.addEventListener("load", () => { if (request.status === 200) window.location.reload(); else say("It could not be attached."); });
      request.addEventListener("error", () => say("It could not be attached."));
      request.open("POST", attach.action);
      request.setRequestHeader("Accept", "application/json");
      request.send(parts);
    });
  }
})();
