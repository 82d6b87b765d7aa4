// Uploads from the page, with progress. Without it the form does the same, with none.
import { find, isolated } from "./page.js";

const form = find("form.upload");
const [dropped, button, cancel, bar, result] = form.querySelectorAll(".dropped, .primary, .cancel, progress, .result");
const typed = (name) => form[name].value.trim().normalize();
const encode = (name) => name.split("/").map(encodeURIComponent).join("/");
const cancelled = { detail: "Cancelled. Nothing was published." };
const pathOf = (file) => (file.path || file.webkitRelativePath || file.name).normalize();
let files = [];
let halt, halted;

function send(method, url, body, lease, progress) { // fetch tells no progress
	return new Promise((resolve, reject) => {
		if (halted) throw cancelled;
		const request = new XMLHttpRequest();
		halt = () => {
			request.abort();
			reject(cancelled);
		};
		request.open(method, url);
		if (!body.name) request.setRequestHeader("Content-Type", "application/json");
		if (lease) request.setRequestHeader("Pawl-Lease", lease);
		request.upload.onprogress = progress;
		request.responseType = "json";
		request.onload = () => (request.status < 300 ? resolve : reject)(request.response || {});
		request.onerror = () => reject({ detail: "The server can't be reached." });
		request.send(body);
	});
}

function explain(e) {
	const who = isolated(e.holder);
	if (e.code === "stale-token") return `Somebody newer, ${who} with token ${e.accepted_token || e.granted_token}, has published meanwhile; yours was refused, nothing was overwritten.`;
	if (e.code === "lease-held") return `${who} holds the key under token ${e.token} until ${new Date(e.expires_at).toLocaleTimeString()}, unless it renews.`;
	return e.detail || "It failed.";
}

function busy(is) {
	button.disabled = is;
	bar.hidden = cancel.hidden = !is;
}

form.onsubmit = async (event) => {
	event.preventDefault();
	const key = form.dataset.key || typed("key");
	const at = `${form.dataset.keys + encode(key)}/-/`;
	const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, 0)).join("");
	const lease = (method, body) => fetch(`${at}lease`, { method, body, headers: { "Pawl-Lease": id, "Content-Type": "application/json" }, keepalive: true }).catch(() => {});
	const release = () => lease("DELETE");
	const total = files.reduce((sum, file) => sum + file.size, 1);
	let done = 1;
	busy(true);
	bar.value = halted = 0;
	result.className = "result";
	result.replaceChildren();
	onpagehide = release;
	const beat = setInterval(lease, 10000, "PATCH", "{}");
	try {
		if (new Set(files.map(pathOf)).size < files.length) throw { detail: "Two files have the same name." };
		const { token } = await send("POST", `${at}lease`, JSON.stringify({ holder: `page: ${form.by.value || "page"}`, ttl: "30s", lease_id: id }));
		const generation = `${at}generations/${token}/`;
		for (const file of files) {
			await send("PUT", `${generation}files/${encode(pathOf(file))}`, file, id, ({ loaded }) => (bar.value = (done + loaded) / total));
			done += file.size;
		}
		const r = await send("POST", `${generation}publish`, JSON.stringify({ primary: typed("primary") || undefined, release: true }), id);
		const link = document.createElement("a");
		link.href = form.dataset.pages + encode(key);
		link.append(`${token}.${r.revision}`);
		result.append("Published as ", link, `: ${r.files} file(s), ${r.bytes} bytes.`);
	} catch (e) {
		if (e.code !== "lease-held") release();
		result.className = "result bad";
		result.append(explain(e));
		button.textContent = "Try again";
	}
	clearInterval(beat);
	onpagehide = null;
	busy(false);
};
cancel.onclick = () => {
	halted = true;
	halt();
};

function choose(some) {
	files = [...some];
	dropped.textContent = `${files.length} file(s): ${files.slice(0, 5).map(pathOf).join(", ")}`;
	form.file.required = !files.length;
}
form.file.onchange = () => choose(form.file.files);

async function walk(entry) { // a folder keeps its paths
	if (entry.isFile) return Object.assign(await new Promise((ok, no) => entry.file(ok, no)), { path: entry.fullPath.slice(1) });
	const reader = entry.createReader(), inside = [];
	for (let some; some?.length !== 0; inside.push(...some)) some = await new Promise((ok, no) => reader.readEntries(ok, no));
	return walkAll(inside);
}
const walkAll = async (entries) => (await Promise.all(entries.map(walk))).flat();

ondragover = (event) => event.preventDefault();
ondrop = async (event) => { // anywhere on the page
	event.preventDefault();
	const { items, files } = event.dataTransfer;
	const entries = Array.from(items, (item) => item.webkitGetAsEntry()).filter(Boolean);
	const some = entries.length ? await walkAll(entries) : files;
	if (!some.length) return;
	choose(some);
	form.closest("[popover]:not(:popover-open)")?.showPopover();
};
