// Python, with the model, beside the page: what is asked here never makes the page wait.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const at = (name) => new URL(name, import.meta.url).href;
const loading = (done, what) => postMessage({ loading: what, done });

async function fetched(name) {
  const answer = await fetch(at(name));
  if (!answer.ok) throw new Error(`${name}: HTTP status ${answer.status}`);
  return answer.arrayBuffer();
}

async function started() {
  loading(0, "Loading Python (13 MB)…");
  const model = fetched("model.zip");
  const python = await loadPyodide({ indexURL: at("pyodide/") });
  loading(1, "Loading the model of the kubelet…");
  python.unpackArchive(await model, "zip", { extractDir: "/model" });
  loading(2, "Starting the model…");
  python.runPython("import sys; sys.path.insert(0, '/model')");
  const { asked } = python.runPython("from pinproof.playground.asked import Page; Page()");
  loading(3, "");
  return asked;
}

const ready = started();
ready.catch(() => {}); // every question says so
onmessage = async ({ data }) => {
  try {
    const asked = await ready;
    postMessage({ id: data.id, answer: asked(data.question) });
  } catch (error) {
    postMessage({ id: data.id, failed: String(error.message ?? error) });
  }
};
