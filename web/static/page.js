// Keyboard, copying, times in the reader's zone, colours. Every page is whole without it.
export const find = (selector) => document.querySelector(selector);
export const all = (selector) => [...document.querySelectorAll(selector)];
export const isolated = (name) => `\u2068${name}\u2069`; // as bdi does

// What is kept in a storage, after it was set if there is a value.
export function kept(name, value, storage = "localStorage") {
	try {
		if (value !== undefined) window[storage][`pawl-${name}`] = value;
		return window[storage][`pawl-${name}`];
	} catch { /* Storage is off. */ }
}

// Spans count from the server's clock, since the reader's may be wrong.
const made = Date.parse(document.body.dataset.now) - performance.now();
const zone = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

function span(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	const [size, unit] = s < 60 ? [1, "s"] : s < 3600 ? [60, "min"] : s < 172800 ? [3600, "h"] : [86400, "days"];
	return `${Math.floor(s / size)} ${unit}`;
}

for (const time of all("time")) time.title = zone.format(Date.parse(time.dateTime));
function tick() {
	for (const time of all(".ago, [data-until]")) {
		const left = Date.parse(time.dateTime) - made - performance.now();
		const text = left > 0 && time.className !== "ago" ? `in ${span(left)}` : `${span(-left)} ago`;
		if (time.textContent !== text) time.textContent = text;
	}
}
tick();
setInterval(() => document.hidden || tick(), 1000);

// Behind a proxy the reader knows the server by another origin than it does.
const known = find("[data-origin]")?.dataset.origin;
for (const code of all("[data-origin] code")) code.textContent = code.textContent.replace(known, location.origin);

const said = find("#said");
let silence;
async function copy(text, what = "") {
	if (!text) return;
	if (text[0] === "/") text = location.origin + text;
	try {
		await navigator.clipboard.writeText(text);
	} catch { // Plain http has no such clipboard.
		const focused = document.activeElement, area = document.createElement("textarea");
		area.value = text;
		document.body.append(area);
		area.select();
		document.execCommand("copy");
		area.remove();
		focused.focus();
	}
	said.textContent = `Copied ${what}`;
	clearTimeout(silence);
	silence = setTimeout(() => said.replaceChildren(), 2500);
}
for (const button of all("[data-copy]")) button.hidden = false;
onclick = ({ target }) => {
	const button = target.closest("[data-copy]");
	if (button) copy(button.dataset.copy || button.previousElementSibling.textContent);
};

for (const field of all("[name=by]:not([type=hidden])")) {
	field.value ||= kept("by") ?? "";
	field.form.addEventListener("submit", () => kept("by", field.value));
}

function step(by) {
	const rows = all("a[data-row]");
	rows[Math.min(rows.length - 1, Math.max(0, rows.indexOf(document.activeElement) + by))]?.focus();
}
const address = (name) => (document.activeElement.closest("[data-current]") ?? find("section[data-current]"))?.dataset[name];
const keys = {
	__proto__: null,
	"/": () => find("[role=search] input").focus(),
	j: () => step(1),
	k: () => step(-1),
	"[": () => find("a[rel=prev], a[rel=first]")?.click(),
	"]": () => find("a[rel=next]")?.click(),
	c: () => copy(address("current"), "the current address"),
	y: () => copy(address("permanent"), "the permanent address"),
	"?": () => find("#keyboard").showModal(),
};
onkeydown = (event) => {
	const act = keys[event.key];
	if (!act || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
	if (find("dialog[open]") || event.target.closest("input, select, [popover]")) return;
	event.preventDefault();
	act();
};
find("#help").onclick = keys["?"];

const colours = find("#theme"), root = document.documentElement.dataset;
function paint(name) {
	root.theme = name;
	colours.textContent = `Colours: ${name}`;
}
colours.onclick = () => {
	paint({ light: "dark", dark: "system" }[root.theme] ?? "light");
	kept("theme", root.theme);
};
paint(kept("theme") ?? "system");
find("#help").hidden = colours.hidden = false;
