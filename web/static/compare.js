// The slider and the blinking of two pictures. Side by side and the difference need no script.
import { all, find } from "./page.js";

const pair = find(".pair"), slide = find(".slide"), blinking = find("[name=blinking]");
const mode = () => find("[name=mode]:checked").value;
const half = 600; // milliseconds that each picture stays
let timer;

for (const label of all(".compare label")) label.hidden = false;

slide.oninput = () => pair.style.setProperty("--at", `${slide.value}%`);
pair.onpointermove = ({ buttons, clientX }) => {
	if (buttons !== 1 || mode() !== "slider") return;
	const { left, width } = pair.getBoundingClientRect();
	slide.value = (100 * (clientX - left)) / width;
	slide.oninput();
};
pair.ondragstart = (event) => event.preventDefault();

function blink() {
	clearInterval(timer);
	pair.classList.remove("before");
	if (mode() === "blink" && blinking.checked) timer = setInterval(() => pair.classList.toggle("before"), half);
}
find(".compare").onchange = blink;
// Who wants less motion starts it by hand.
blinking.checked = !matchMedia("(prefers-reduced-motion: reduce)").matches;
slide.oninput();
blink();
