// Answers a question of `xbench ask` with ONNX Runtime Web, in Node or, by page.html, in a browser.
//   npm install onnxruntime-web && node answer.mjs QUESTION ANSWERS
const TYPES = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array,
  int8: Int8Array, bool: Uint8Array, float16: Uint16Array,
};

/** Runs every set of a question. `read(path)` gives an ArrayBuffer, `write(path, bytes)` stores an answer. */
export async function answer(ort, read, write, about) {
  const facts = JSON.parse(new TextDecoder().decode(await read("question.json")));
  const session = await ort.InferenceSession.create(new Uint8Array(await read("model.onnx")));
  const seconds = [];
  for (let set = 0; set < facts.outputs[0].shapes.length; set++) {
    const feeds = {}, place = `test_data_set_${set}`;
    for (const { name, file, dtype, shapes } of facts.inputs) {
      const values = new TYPES[dtype](await read(`${place}/${file}.bin`));
      feeds[name] = new ort.Tensor(dtype, values, shapes[set]);
    }
    let results = await session.run(feeds);
    for (let run = 0; run < 5; run++) {
      const start = performance.now();
      results = await session.run(feeds);
      if (set === 0) seconds.push((performance.now() - start) / 1000);
    }
    for (const { name, file } of facts.outputs) {
      const { buffer, byteOffset, byteLength } = results[name].data;
      await write(`${place}/${file}.bin`, new Uint8Array(buffer, byteOffset, byteLength));
    }
  }
  const times = { runtime: `ONNX Runtime Web ${ort.env.versions.web}`, machine: about, seconds };
  await write("times.json", new TextEncoder().encode(JSON.stringify(times)));
}

if (globalThis.process?.argv[1]?.endsWith("answer.mjs")) {
  const fs = await import("node:fs");
  const path = await import("node:path");
  const [question, answers] = process.argv.slice(2);
  const read = (name) => new Uint8Array(fs.readFileSync(path.join(question, name))).buffer;
  const write = (name, bytes) => {
    fs.mkdirSync(path.dirname(path.join(answers, name)), { recursive: true });
    fs.writeFileSync(path.join(answers, name), bytes);
  };
  await answer(await import("onnxruntime-web"), read, write, `Node ${process.version}`);
}
