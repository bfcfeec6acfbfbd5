// heapsnapshot_devtools.mjs - what the engine of Chrome's DevTools makes of heap snapshots.
//
//   node heapsnapshot_devtools.mjs LIST OUT    (LIST: a file with a name of a file in each line)
//
// Writes `file NAME`, then for each node: id, name as JSON, self size, id of the dominator or "-",
// retained size, whether it is reached, its class as JSON; then `allocated` and the functions of the
// allocation view.
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';
import fs from 'node:fs';

const folder = process.env.HX_NODE_MODULES;
const require = createRequire(`${folder}/x.js`);
const {parse} = await import(pathToFileURL(`${folder}/heap-snapshot-toolkit/index.js`));

const lines = [];
for (const file of fs.readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean)) {
  const heap = await parse(fs.createReadStream(file, 'utf8'));
  lines.push(`file ${file}`);
  const node = heap.rootNode();
  const step = heap.nodeFieldCount;
  const reached = heap.nodeDistances;
  for (let i = 0; i < heap.nodeCount; i++) {
    node.nodeIndex = i * step;
    const id = node.id(), name = node.rawName(), self = node.selfSize();
    const group = node.className();
    const retained = node.retainedSize(), distance = reached[i];
    const above = node.dominatorIndex();
    node.nodeIndex = above;
    lines.push([id, JSON.stringify(name), self, i === 0 ? '-' : node.id(), retained,
                distance >= 0 && distance < 100000000 ? 1 : 0, JSON.stringify(group)].join('\t'));
  }
  const profile = heap.profile;
  if (profile.snapshot.trace_function_count) {
    for (const row of heap.allocationTracesTops()) {
      lines.push(['allocated', JSON.stringify(row.name), JSON.stringify(row.scriptName), row.line,
                  row.count, row.size, row.liveCount, row.liveSize].join('\t'));
    }
  }
}
fs.writeFileSync(process.argv[3], lines.join('\n') + '\n');
process.exit(0);
